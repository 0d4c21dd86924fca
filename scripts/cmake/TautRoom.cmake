# A room is a folder of sources with one target, the project's warnings, and a stated list of the
# rooms and libraries that it uses.

set(TAUT_WARNINGS -Wall -Wextra -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # False positives on string concatenation: GCC bug 105651.
  list(APPEND TAUT_WARNINGS -Wno-restrict)
endif()

set(TAUT_CUDA_OPTIONS -std=c++20 --extended-lambda --Werror=all-warnings
    -Xcompiler=-Wall,-Wextra,-Wconversion,-Werror)

# With precompiled headers, ccache works only if told that they are the same when their bytes
# are; and one checkout finds what another one compiled only if paths within it are made relative.
find_program(TAUT_CCACHE ccache)
if(TAUT_CCACHE)
  set(TAUT_LAUNCHER
    env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
        CCACHE_NOHASHDIR=1
    ${TAUT_CCACHE})
endif()

function(taut_use_ccache target)
  if(TAUT_CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${TAUT_LAUNCHER}"
                                               CUDA_COMPILER_LAUNCHER "${TAUT_LAUNCHER}")
  endif()
endfunction()

# Applies what every target of ours shares: language level, include root, warnings, sanitizers.
function(taut_configure target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                                              $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}>)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${TAUT_WARNINGS}>)
  # CMake may not know the language level of a newer nvcc, so it is passed as it is.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${TAUT_CUDA_OPTIONS}>")
  taut_use_ccache(${target})
  taut_sanitize(${target})
endfunction()

# taut_sanitize(TARGET): everything that is linked into a program is compiled for the build's
# sanitizers, generated code too: of an inline function the linker takes any copy.
function(taut_sanitize target)
  if(NOT TAUTLINE_SANITIZE)
    return()
  endif()
  target_compile_options(${target} PRIVATE -fsanitize=${TAUTLINE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(${target} PUBLIC -fsanitize=${TAUTLINE_SANITIZE})
  if(TAUTLINE_SANITIZE MATCHES thread)
    # Boost.Asio has fences, which the sanitizer does not follow; its reports would name them.
    target_compile_options(${target} PRIVATE -Wno-tsan)
  endif()
endfunction()

# Several sources are compiled as one: what they include is read once for all of them.
option(TAUTLINE_UNITY "Compile the sources of a target eight at a time" ON)
if(TAUTLINE_FUZZ)
  set(TAUTLINE_UNITY OFF)  # coverage is counted by source
endif()

# taut_unity(TARGET [source ...]): compiles TARGET eight sources at a time. The sources that are
# named stay apart: something in them has the name of something in another one.
function(taut_unity target)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${ARGN})
    if(NOT source IN_LIST sources)
      message(FATAL_ERROR "${target}: ${source} is under APART but not under SOURCES")
    endif()
  endforeach()
  if(NOT TAUTLINE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # GCC warns of a class that has a member of an unnamed namespace, unless it is in the main file.
  target_compile_options(${target} PRIVATE
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>")
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# taut_room(NAME SOURCES a.cpp ... [USES target ...] [PRECOMPILED target|NONE] [APART a.cpp ...]
# [ALONE]): a static library. Its precompiled header is that of common/, if none is named. APART
# names those of its sources that are compiled alone (taut_unity()); ALONE: each of them is.
function(taut_room name)
  cmake_parse_arguments(ROOM "ALONE" "PRECOMPILED" "SOURCES;USES;APART" ${ARGN})
  add_library(${name} STATIC ${ROOM_SOURCES})
  taut_configure(${name})
  if(NOT ROOM_ALONE)
    taut_unity(${name} ${ROOM_APART})
  endif()
  if(NOT ROOM_PRECOMPILED)
    set(ROOM_PRECOMPILED taut_pch_common)
  endif()
  if(NOT ROOM_PRECOMPILED STREQUAL "NONE")
    taut_use_precompiled(${name} ${ROOM_PRECOMPILED})
  endif()
  target_link_libraries(${name} PUBLIC ${ROOM_USES})
endfunction()

# taut_program(NAME SOURCES a.cpp ... [USES target ...]): an installed executable.
function(taut_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  taut_configure(${name})
  target_link_libraries(${name} PRIVATE ${PROGRAM_USES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tautline)
endfunction()
