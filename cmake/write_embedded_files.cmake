# Writes OUTPUT, a C++ file in which FUNCTION returns the names and texts of FILES: kernbench_embed()
# of Embed.cmake runs it.  A file's name is its stem; of a ccl.yaml, that of its folder.
set(files "")
foreach(path IN LISTS FILES)
  cmake_path(GET path STEM name)
  if(name STREQUAL "ccl")
    cmake_path(GET path PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
  endif()
  file(READ "${path}" text)
  string(APPEND files "      {\"${name}\", R\"file(${text})file\"},\n")
endforeach()
list(LENGTH FILES count)
file(WRITE "${OUTPUT}" "#include <array>

#include \"${HEADER}\"

namespace ${NAMESPACE} {

std::span<const EmbeddedFile> ${FUNCTION}() {
  static constexpr std::array<EmbeddedFile, ${count}> kFiles = {{
${files}  }};
  return kFiles;
}

}  // namespace ${NAMESPACE}
")
