#include "benches/cli/report_page.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "benches/bench/inputs.h"
#include "benches/cli/run_outputs.h"
#include "benches/cli/shell_word.h"
#include "benches/page/page.h"
#include "runtime/profiler/energy.h"

namespace kernbench::benches::cli {

namespace {

// The command that makes the same results again.
std::string make_command(std::string_view command, const RunArguments& arguments) {
  std::string text = fmt::format("kernbench {} --bench {} --topology {}", command, arguments.bench,
                                 shell_word(arguments.topology));
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) text += fmt::format(" {} {}", option, shell_word(value));
  };
  add("--ccl", arguments.ccl);
  add("--seed", arguments.seed == "0" ? "" : arguments.seed);
  add("--shuffle-ties", arguments.shuffle_ties);
  if (!arguments.settings.empty()) text += " --set";
  for (const std::string& setting : arguments.settings) text += ' ' + shell_word(setting);
  return text;
}

}  // namespace

std::string make_page(const RunArguments& arguments, const Report& report, const Work& work,
                      const runtime::Simulation& simulation, const std::string& point) {
  if (arguments.report.empty()) return "";
  page::Heading heading{.title = fmt::format("kernbench: {}", report.bench),
                        .facts = {},
                        .rows = report.rows,
                        .gains = work.gains == nullptr ? Gains() : *work.gains,
                        .energy = runtime::measure_energy(simulation)};
  const auto add = [&](std::string name, std::string value) {
    heading.facts.emplace_back(std::move(name), std::move(value));
  };
  add("command", make_command(work.command, arguments));
  add("topology",
      fmt::format("{}: {}", simulation.topology().name, describe(simulation.topology())));
  add("simulated", fmt::format("{:.3f} us", to_ns(simulation.now()) / 1e3));
  if (!point.empty()) add("shown", point);
  add("fingerprint", fmt::format("{:016x}", report.engine.fingerprint));
  add("kernbench", std::string(version()));
  return page::report_page(heading, simulation, profiled_time(arguments));
}

}  // namespace kernbench::benches::cli
