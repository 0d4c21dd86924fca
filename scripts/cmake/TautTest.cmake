# taut_test(NAME LABEL unit SOURCES a.cpp ... [USES target ...]): one Catch2 program; each of its
# cases is a CTest test with that label and a deadline.
if(Catch2_VERSION VERSION_GREATER_EQUAL 3)
  set(TAUT_CATCH_MAIN Catch2::Catch2WithMain)
  set(TAUT_CATCH_MAIN_SOURCE)
else()
  set(TAUT_CATCH_MAIN Catch2::Catch2)
  set(TAUT_CATCH_MAIN_SOURCE ${CMAKE_SOURCE_DIR}/tests/support/catch_main.cpp)
endif()
include(Catch)

if(TAUT_CATCH_MAIN_SOURCE)
  add_library(taut_catch_main OBJECT ${TAUT_CATCH_MAIN_SOURCE})
  target_link_libraries(taut_catch_main PUBLIC Catch2::Catch2)
  target_include_directories(taut_catch_main PUBLIC ${CMAKE_SOURCE_DIR})
endif()

function(taut_test name)
  cmake_parse_arguments(TEST "" "LABEL;TIMEOUT" "SOURCES;USES" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  taut_configure(${name})
  target_link_libraries(${name} PRIVATE ${TEST_USES} ${TAUT_CATCH_MAIN})
  if(TARGET taut_catch_main)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:taut_catch_main>)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  catch_discover_tests(${name}
    TEST_PREFIX "${name}: "
    PROPERTIES LABELS ${TEST_LABEL} TIMEOUT ${TEST_TIMEOUT})
endfunction()
