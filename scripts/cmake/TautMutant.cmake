# Tests are tested by what they catch: a patch plants one bug in a copy of one source of the
# product, which is linked in place of the right one. A patch fails the build if the lines around
# its change are no longer those that it names.
find_program(TAUT_PATCH patch REQUIRED)

# taut_mutant_program(NAME SOURCE PATCH OBJECTS LIBRARIES...): the program taut_mutant_NAME, of an
# object library and a copy of SOURCE, named from the project's root, with the patch.
function(taut_mutant_program name source patch objects)
  set(mutated ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  # What it replaces must be a separate object.
  get_filename_component(room ${CMAKE_SOURCE_DIR}/${source} DIRECTORY)
  while(NOT EXISTS ${room}/CMakeLists.txt)
    get_filename_component(room ${room} DIRECTORY)
  endwhile()
  set_source_files_properties(${CMAKE_SOURCE_DIR}/${source} DIRECTORY ${room}
    PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_custom_command(
    OUTPUT ${mutated}
    COMMAND ${TAUT_PATCH} --quiet --fuzz=0 --output=${mutated} ${CMAKE_SOURCE_DIR}/${source}
      ${patch}
    DEPENDS ${CMAKE_SOURCE_DIR}/${source} ${patch}
    COMMENT "Planting a bug: ${name}"
    VERBATIM)
  add_executable(taut_mutant_${name} ${mutated} $<TARGET_OBJECTS:${objects}>)
  taut_configure(taut_mutant_${name})
  taut_use_precompiled(taut_mutant_${name} taut_pch_tests)
  target_compile_options(taut_mutant_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(taut_mutant_${name} PRIVATE ${ARGN})
  set_target_properties(taut_mutant_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mutants)
endfunction()
