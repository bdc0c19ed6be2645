#include "benches/cli/probe_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include "benches/bench/console.h"
#include "benches/bench/inputs.h"
#include "benches/bench/output_file.h"
#include "benches/bench/report.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/line_width.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_scalar.h"

namespace kernbench::benches::cli {

std::int64_t parse_number(std::string_view option, std::string_view text, std::int64_t min,
                          std::int64_t max) {
  const ParsedScalar parsed = parse_integer(text, min, max);
  if (parsed.code.empty()) return parsed.value;
  throw UsageError("KB-U012", "{} {}: {}", option, in_quotes(text), parsed.fault);
}

std::string first_line(std::string_view what, const Topology& topology) {
  return wrapped(fmt::format("# kernbench {}: {} on {} ({})", version(), what, topology.name,
                             describe(topology)),
                 "#   ") +
         "\n#\n";
}

void show(const std::string& json_name, const Json& json, std::string_view text) {
  if (!json_name.empty()) OutputFile(json_name).commit(json.dump(2) + '\n');
  Console console(json_name == "-" ? STDERR_FILENO : STDOUT_FILENO);
  console.print(text);
  console.finish();
}

}  // namespace kernbench::benches::cli
