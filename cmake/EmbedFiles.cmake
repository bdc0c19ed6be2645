# Writes OUTPUT, a C++ file that holds the texts of CCL and FSIM.
# cmake -DOUTPUT=... -DCCL=... -DFSIM=... -P EmbedFiles.cmake
set(text "#include \"benches/bench/inputs.h\"\n\nnamespace kernbench::benches {\n\n")
file(READ "${CCL}" content)
string(APPEND text "std::string_view shipped_ccl_config() {\n  return R\"yaml(${content})yaml\";\n}\n\n")
file(READ "${FSIM}" content)
string(APPEND text
  "std::string_view shipped_fsim_reference_text() {\n  return R\"yaml(${content})yaml\";\n}\n\n"
  "}  // namespace kernbench::benches\n")
file(WRITE "${OUTPUT}" "${text}")
