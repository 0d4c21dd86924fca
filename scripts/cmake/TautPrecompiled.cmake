# Headers that are compiled once for many sources. A source still includes what it uses: with
# TAUTLINE_PCH=OFF everything builds from its own includes alone, which scripts/test --long checks.
option(TAUTLINE_PCH "Compile the headers that most sources share once" ON)
if(TAUTLINE_FUZZ)
  set(TAUTLINE_PCH OFF)  # rooms have instrumentation that the headers would not have
endif()
# ccache requires the first. The others: the library's strings and vectors from a precompiled header
# are warned of falsely when they are inlined (GCC bugs 105329, 105651); they stay on with
# TAUTLINE_PCH=OFF.
set(TAUT_PCH_OPTIONS -fpch-preprocess -Wno-array-bounds -Wno-maybe-uninitialized
    -Wno-stringop-overflow -Wno-stringop-overread)
set(TAUT_PCH_OPTIONS
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:${TAUT_PCH_OPTIONS}>")

# taut_precompiled(NAME HEADER target ...): the target NAME, whose precompiled header others share
# by taut_use_precompiled(); the further targets are the libraries that the header is from.
function(taut_precompiled name header)
  if(NOT TAUTLINE_PCH)
    return()
  endif()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Carries the precompiled ${header}.\n")
  add_library(${name} OBJECT ${source})
  taut_configure(${name})
  if(TAUT_CCACHE)
    set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER
      "${PROJECT_SOURCE_DIR}/scripts/cmake/fresh_precompiled;${TAUT_LAUNCHER}")
  endif()
  target_link_libraries(${name} PRIVATE ${ARGN})
  # In <>, CMake keeps the name as it is: the same bytes in every checkout, so that ccache finds
  # what another one compiled.
  target_precompile_headers(${name} PRIVATE <${header}>)
  target_compile_options(${name} PRIVATE ${TAUT_PCH_OPTIONS})
endfunction()

# taut_use_precompiled(TARGET NAME): no options of TARGET may change what the header means; the
# compiler says so where one does.
function(taut_use_precompiled target name)
  if(TAUTLINE_PCH)
    target_precompile_headers(${target} REUSE_FROM ${name})
    target_compile_options(${target} PRIVATE ${TAUT_PCH_OPTIONS})
  endif()
endfunction()

# Outside headers of every room.
taut_precompiled(taut_pch_common common/precompiled.hpp fmt::fmt spdlog::spdlog Boost::headers)
# Rooms that see messages.
taut_precompiled(taut_pch_proto proto/precompiled.hpp
                 taut_schemas fmt::fmt spdlog::spdlog Boost::headers)
