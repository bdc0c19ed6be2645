# Writes OUTPUT, a C++ file that holds the texts of TOPOLOGIES (a list).
# cmake -DOUTPUT=... -DTOPOLOGIES=... -P EmbedTopologies.cmake
set(text "#include <array>\n\n#include \"sim_engine/topology/shipped_topologies.h\"\n\n")
string(APPEND text "namespace kernbench {\n\n")
list(LENGTH TOPOLOGIES count)
string(APPEND text "std::span<const ShippedTopology> shipped_topologies() {\n"
  "  static constexpr std::array<ShippedTopology, ${count}> kFiles = {{\n")
foreach(file IN LISTS TOPOLOGIES)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" content)
  string(APPEND text "      {\"${name}\", R\"yaml(${content})yaml\"},\n")
endforeach()
string(APPEND text "  }};\n  return kFiles;\n}\n\n}  // namespace kernbench\n")
file(WRITE "${OUTPUT}" "${text}")
