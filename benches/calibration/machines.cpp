#include "benches/calibration/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "benches/collectives/calibrate.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::calibration {

namespace {

struct MachineText {
  std::string topology;
  std::string file;
};

MachineText split_machine(const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  MachineText machine{text.substr(0, equals), text.substr(std::min(equals + 1, text.size()))};
  if (!machine.topology.empty() && !machine.file.empty()) return machine;
  throw UsageError("KB-U001",
                   "calibrate {}: expected MACHINE=FILE.csv, a topology and a file of its "
                   "published times, such as h100_8=topologies/h100_8/published.csv",
                   in_quotes(text));
}

void check_is_one(const variants::VariantMaker& maker) {
  if (maker.count() == 1) return;
  throw UsageError("KB-U016",
                   "calibrate varies no key but those of --fit, and --set or MACHINE gives {} "
                   "combinations; give one value to each key",
                   maker.count());
}

void check_ranks(const variants::Variant& variant) {
  if (!variant.ccl.world_size()) return;
  throw ConfigError("KB-Y043",
                    "ccl.yaml: 'world_size' makes PEs the ranks, and published times are of "
                    "devices; take it out");
}

void add_machine(Calibration& calibration, const BenchInfo& info, const CalibrationInputs& inputs,
                 const MachineText& text) {
  Machine& machine = calibration.machines.emplace_back(
      text.topology, text.file,
      variants::VariantRequest{.bench = &info,
                               .topologies = text.topology,
                               .ccl = inputs.ccl,
                               .assignments = inputs.assignments});
  check_is_one(machine.maker);
  check_ranks(machine.as_given);
  for (const collectives::PublishedTime& one : collectives::load_published_times(text.file)) {
    calibration.rows.push_back({calibration.machines.size() - 1, one});
  }
}

}  // namespace

Machine::Machine(std::string its_topology, std::string its_file,
                 const variants::VariantRequest& request)
    : topology(std::move(its_topology)),
      file(std::move(its_file)),
      maker(request),
      as_given(maker.first()),
      input(collectives::calibration_input(as_given.settings, as_given.topology)) {}

std::string CalibratedRow::name_in(const std::string& file) const {
  return fmt::format("{} of {} B, {} us, of {}", name_of(published.collective), published.size,
                     collectives::microseconds(published.time), file);
}

std::string Calibration::inputs() const {
  std::string text;
  for (const Machine& machine : machines) text += machine.maker.inputs() + '\n';
  for (const CalibratedRow& row : rows) text += row.name_in(machines[row.machine].file) + '\n';
  return text;
}

Calibration read_calibration(const BenchInfo& info, const CalibrationInputs& inputs) {
  Calibration calibration{.ccl = inputs.ccl};
  for (const std::string& text : inputs.machines) {
    const MachineText machine = split_machine(text);
    if (std::ranges::find(calibration.machines, machine.file, &Machine::file) !=
        calibration.machines.end()) {
      throw UsageError("KB-U001", "calibrate: the file {} is given twice", in_quotes(machine.file));
    }
    add_machine(calibration, info, inputs, machine);
  }
  return calibration;
}

}  // namespace kernbench::benches::calibration
