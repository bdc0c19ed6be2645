# Writes OUTPUT, a C++ file that holds the texts of FORMS, files for gnuplot.
# cmake -DOUTPUT=... "-DFORMS=...;..." -P EmbedChartForms.cmake
set(text "#include \"benches/figure/chart_forms.h\"\n\n#include \"sim_engine/base/check.h\"\n\n")
string(APPEND text "namespace kernbench::benches::figure {\n\n"
  "std::string_view chart_form(std::string_view name) {\n")
foreach(file IN LISTS FORMS)
  cmake_path(GET file STEM form)
  file(READ "${file}" content)
  string(APPEND text "  if (name == \"${form}\") return R\"gp(${content})gp\";\n")
endforeach()
string(APPEND text "  KB_CHECK(false, \"there is no form of charts '{}'\", name);\n"
  "  return {};\n}\n\n}  // namespace kernbench::benches::figure\n")
file(WRITE "${OUTPUT}" "${text}")
