// `kernbench draw`.

#include <fmt/format.h>

#include "benches/bench/inputs.h"
#include "benches/bench/output_file.h"
#include "benches/cli/commands.h"
#include "benches/figure/topology_diagram.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::cli {

int draw(const DrawArguments& arguments) {
  const std::string& out = arguments.out;
  if (out != "-" && !out.ends_with(".svg")) {
    throw UsageError("KB-U012",
                     "--out: the drawing is an SVG, and the name '{}' does not end in .svg; "
                     "for example: --out {}.svg",
                     out, out);
  }
  OutputFile(out).commit(figure::topology_diagram(load_topology(arguments.topology)));
  return 0;
}

}  // namespace kernbench::benches::cli
