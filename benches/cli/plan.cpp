// `kernbench plan`.

#include <string>

#include "benches/cli/commands.h"

namespace kernbench::benches::cli {

int plan(const PlanArguments& arguments, ProcessTeam* team) {
  RunArguments run = arguments.run;
  run.bench = "plan";
  if (run.fold == "auto") run.fold = "near";  // plans of few ranks, too
  const auto set = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) run.settings.push_back(key + '=' + value);
  };
  set("world", arguments.world);
  set("memory", arguments.memory);
  return cli::run(run, team);
}

}  // namespace kernbench::benches::cli
