# taut_test(NAME LABEL unit SOURCES a.cpp ... [USES target ...] [APART a.cpp ...] [ALONE]): one
# Catch2 program; each of its cases is a CTest test with that label and a deadline. APART and ALONE
# as in taut_room().
include(Catch)

# Catch2's own part, compiled once for all programs; half of its compile time would be spent on code
# that runs once.
add_library(taut_catch_runner OBJECT ${CMAKE_SOURCE_DIR}/tests/support/catch_runner.cpp)
target_link_libraries(taut_catch_runner PUBLIC Catch2::Catch2)
target_include_directories(taut_catch_runner PUBLIC ${CMAKE_SOURCE_DIR})
taut_sanitize(taut_catch_runner)
target_compile_options(taut_catch_runner PRIVATE $<$<CONFIG:Release>:-O0>)

# taut_catch(TARGET [OWN_MAIN]): TARGET is a program of Catch2's cases; with OWN_MAIN its main calls
# run_cases().
function(taut_catch target)
  if(NOT OWN_MAIN IN_LIST ARGN)
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/catch_main.cpp)
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:taut_catch_runner>)
  target_link_libraries(${target} PRIVATE Catch2::Catch2)
endfunction()

taut_precompiled(taut_pch_tests tests/precompiled.hpp
                 taut_schemas fmt::fmt spdlog::spdlog Boost::headers Catch2::Catch2)
if(TAUTLINE_PCH)
  # Programs are compiled with -fPIE, rooms with -fPIC, and a precompiled header serves one of them.
  set_target_properties(taut_pch_tests PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(taut_pch_tests PRIVATE -fPIE)
endif()

# taut_deadline(OUT SECONDS): a test's time limit in this build, as sanitizers slow programs down.
if(TAUTLINE_SANITIZE MATCHES thread)
  set(TAUT_SLOWER 8)
elseif(TAUTLINE_SANITIZE)
  set(TAUT_SLOWER 4)
else()
  set(TAUT_SLOWER 1)
endif()
function(taut_deadline out seconds)
  math(EXPR scaled "${seconds} * ${TAUT_SLOWER}")
  set(${out} ${scaled} PARENT_SCOPE)
endfunction()

function(taut_test name)
  cmake_parse_arguments(TEST "ALONE" "LABEL;TIMEOUT" "SOURCES;USES;APART" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  taut_deadline(TEST_TIMEOUT ${TEST_TIMEOUT})
  add_executable(${name} ${TEST_SOURCES})
  taut_configure(${name})
  if(NOT TEST_ALONE)
    taut_unity(${name} ${TEST_APART})
  endif()
  taut_use_precompiled(${name} taut_pch_tests)
  # A test's own code runs for moments: a fifth of its compile time is saved. What it tests is
  # compiled as it is installed.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${name} PRIVATE ${TEST_USES})
  taut_catch(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  catch_discover_tests(${name}
    TEST_PREFIX "${name}: "
    PROPERTIES LABELS ${TEST_LABEL} TIMEOUT ${TEST_TIMEOUT})
endfunction()
