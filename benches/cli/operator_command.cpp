// `kernbench bench`.

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "benches/cli/commands.h"
#include "benches/operators/operator_bench.h"
#include "benches/operators/operator_cases.h"

namespace kernbench::benches::cli {

int bench(const OperatorArguments& arguments, ProcessTeam* team) {
  const std::string_view name = operators::operator_cases().find(arguments.operator_case)->name();
  operators::parse_dtypes("--dtype", arguments.dtype);
  const BenchInfo info = operators::make_bench(name);
  RunArguments wanted = arguments.run;
  wanted.bench = info.name;
  for (const auto& [key, value] : std::initializer_list<std::pair<std::string_view, std::string>>{
           {"dtype", arguments.dtype},
           {"save_path", arguments.save_path},
           {"plot", arguments.plot ? "true" : "false"},
           {"profile", arguments.profile ? "true" : "false"}}) {
    const std::string option = fmt::format("{}=", key);
    const bool is_set = std::ranges::any_of(
        wanted.settings, [&](const std::string& given) { return given.starts_with(option); });
    if (!is_set) wanted.settings.push_back(option + value);
  }
  return run(info, wanted, team);
}

}  // namespace kernbench::benches::cli
