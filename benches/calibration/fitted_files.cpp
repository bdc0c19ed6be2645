#include "benches/calibration/fitted_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "benches/bench/inputs.h"
#include "benches/calibration/yaml_edit.h"

namespace kernbench::benches::calibration {

namespace {

using variants::Key;
using variants::KeyOwner;

std::string list_sources(const Calibration& calibration) {
  std::vector<std::string> files;
  for (const Machine& machine : calibration.machines) {
    files.push_back(std::filesystem::path(machine.file).filename());
  }
  return fmt::format("{}", fmt::join(files, ", "));
}

std::string describe_source(const Calibration& calibration, const Parameter& parameter,
                            const ParameterFit& fit) {
  std::string how = "fitted: at its bound";
  if (parameter.is_switch()) {
    how = "searched over the sizes between the rows";
  } else if (fit.low) {
    how = fmt::format("fitted: 95 % {} to {}", parameter.show(*fit.low), parameter.show(*fit.high));
  }
  return fmt::format("{}, from {}", how, list_sources(calibration));
}

// Values that --set gives, then the fitted ones.
std::vector<PutValue> list_values(const Calibration& calibration, const Machine& machine,
                                  const std::vector<Parameter>& parameters, const Fit& fit,
                                  KeyOwner owner) {
  std::vector<PutValue> values;
  for (const auto& [name, text] : machine.as_given.fixed) {
    const Key& key = machine.maker.keys().find(name);
    if (key.owner != owner) continue;
    values.push_back({name, key.path, key.is_list() ? fmt::format("[{}]", text) : text,
                      "as --set gave it to the fit"});
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const std::string& name : parameters[i].keys) {
      const Key& key = machine.maker.keys().find(name);
      if (key.owner != owner) continue;
      values.push_back({name, key.path, fit.parameters[i].text,
                        describe_source(calibration, parameters[i], fit.parameters[i])});
    }
  }
  return values;
}

// "h100_8.yaml" of "h100_8" and of "machines/h100_8.yaml"; "h100_8-2.yaml" if there is one.
std::string file_name(const Machine& machine, const std::vector<FittedFile>& files) {
  const std::string stem = std::filesystem::path(machine.topology).filename().stem();
  std::string name = stem + ".yaml";
  const auto is_taken = [&] {
    return name == "ccl.yaml" || std::ranges::find(files, name, &FittedFile::name) != files.end();
  };
  for (int number = 2; is_taken(); ++number) {
    name = fmt::format("{}-{}.yaml", stem, number);
  }
  return name;
}

std::string text_of_ccl(const Calibration& calibration, const Machine& machine) {
  return ccl_text(ccl_of(machine.topology, calibration.ccl));
}

}  // namespace

std::vector<FittedFile> fitted_files(const Calibration& calibration,
                                     const std::vector<Parameter>& parameters, const Fit& fit) {
  std::vector<FittedFile> files;
  for (const Machine& machine : calibration.machines) {
    const auto values = list_values(calibration, machine, parameters, fit, KeyOwner::topology);
    files.push_back({file_name(machine, files),
                     put_values(topology_text(machine.topology), machine.topology, values)});
  }
  const bool is_shared = std::ranges::all_of(calibration.machines, [&](const Machine& machine) {
    return text_of_ccl(calibration, machine) ==
           text_of_ccl(calibration, calibration.machines.front());
  });
  for (std::size_t i = 0; i < calibration.machines.size(); ++i) {
    const Machine& machine = calibration.machines[i];
    if (is_shared && i > 0) break;
    const auto values = list_values(calibration, machine, parameters, fit, KeyOwner::ccl);
    const std::string stem = std::filesystem::path(files[i].name).stem();
    files.push_back({is_shared ? "ccl.yaml" : stem + ".ccl.yaml",
                     put_values(text_of_ccl(calibration, machine), "ccl.yaml", values)});
  }
  return files;
}

}  // namespace kernbench::benches::calibration
