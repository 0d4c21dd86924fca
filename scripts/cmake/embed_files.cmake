# Writes a source with the bytes of each file of FILES, separated by commas, as a std::string_view:
# cmake -DOUT=source -DNAMESPACE=name -DFILES=a,b -P embed_files.cmake. The standard limits the
# length of string literals, but not of arrays.
string(REPLACE "," ";" FILES "${FILES}")
set(text "#include <string_view>\n\nnamespace ${NAMESPACE} {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${file} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND text "static const char ${name}_bytes[] = {${bytes}};\n"
                     "extern const std::string_view ${name}(${name}_bytes, ${size});\n")
endforeach()
string(APPEND text "}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUT} "${text}")
