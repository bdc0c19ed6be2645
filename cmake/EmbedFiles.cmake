# Writes OUTPUT, a C++ file that holds the texts of TOPOLOGIES (a list), CCL and FSIM.
# cmake -DOUTPUT=... -DTOPOLOGIES=... -DCCL=... -DFSIM=... -P EmbedFiles.cmake
set(text "#include <array>\n\n#include \"benches/inputs.h\"\n\nnamespace kernbench::benches {\n\n")
list(LENGTH TOPOLOGIES count)
string(APPEND text "std::span<const EmbeddedFile> shipped_topologies() {\n"
  "  static constexpr std::array<EmbeddedFile, ${count}> kFiles = {{\n")
foreach(file IN LISTS TOPOLOGIES)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" content)
  string(APPEND text "      {\"${name}\", R\"yaml(${content})yaml\"},\n")
endforeach()
file(READ "${CCL}" content)
string(APPEND text "  }};\n  return kFiles;\n}\n\n"
  "std::string_view shipped_ccl_config() {\n  return R\"yaml(${content})yaml\";\n}\n\n")
file(READ "${FSIM}" content)
string(APPEND text
  "std::string_view shipped_fsim_reference_text() {\n  return R\"yaml(${content})yaml\";\n}\n\n"
  "}  // namespace kernbench::benches\n")
file(WRITE "${OUTPUT}" "${text}")
