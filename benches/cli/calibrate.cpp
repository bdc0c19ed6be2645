// `kernbench calibrate`.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/calibration/calibration_run.h"
#include "benches/calibration/machines.h"
#include "benches/calibration/parameters.h"
#include "benches/cli/commands.h"
#include "benches/cli/perform.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::cli {

namespace {

std::vector<std::string> list_axes(const calibration::Calibration& calibration,
                                   const std::vector<calibration::Parameter>& parameters) {
  std::vector<std::string> axes;
  for (const calibration::Machine& machine : calibration.machines) {
    axes.push_back(fmt::format("the machine: {} of {}", machine.topology, machine.file));
  }
  for (const calibration::Parameter& one : parameters) {
    axes.push_back(fmt::format("{} from {} to {}, fitted", one.name(), one.show(one.range.low),
                               one.show(one.range.high)));
  }
  return axes;
}

}  // namespace

int calibrate(const CalibrateArguments& arguments) {
  const BenchInfo& info = registered_benches().find("calibrate");
  const calibration::Calibration calibration = calibration::read_calibration(
      info, {arguments.machines, arguments.run.ccl, arguments.run.settings});
  const calibration::Machine& first = calibration.machines.front();
  if (first.as_given.settings.is_set("csv")) {
    throw UsageError("KB-U012", "--set csv: calibrate takes files as MACHINE=FILE.csv");
  }
  const std::vector<calibration::Parameter> parameters =
      calibration::read_parameters(calibration, arguments.fit);
  std::string inputs = calibration.inputs();
  for (const std::string& text : arguments.fit) inputs += text + '\n';
  return perform(
      info, arguments.run, nullptr,
      {.first = first.as_given,
       .inputs = inputs,
       .axes = list_axes(calibration, parameters),
       .run = [&](Bench& bench) { calibration::run_calibration(bench, calibration, parameters); },
       .ran = {},
       .command = "calibrate"});
}

}  // namespace kernbench::benches::cli
