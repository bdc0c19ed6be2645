#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/bench/output_file.h"
#include "benches/bench/report.h"
#include "benches/cli/commands.h"
#include "benches/operators/operator_cases.h"
#include "ccl/core/config.h"
#include "sim_engine/base/line_width.h"

namespace kernbench::benches::cli {

namespace {

using Json = nlohmann::ordered_json;

Json benches_as_json() {
  Json benches = Json::array();
  for (const auto& [name, info] : registered_benches()) {
    Json settings = Json::array();
    for (const SettingInfo& setting : info.settings) {
      settings.push_back(
          {{"key", setting.key}, {"default", setting.fallback}, {"help", setting.help}});
    }
    benches.push_back({{"name", name}, {"summary", info.summary}, {"settings", settings}});
  }
  return benches;
}

Json all_as_json() {
  Json algorithms = Json::array();
  for (const ccl::Algorithm* algorithm : ccl::algorithms()) {
    algorithms.push_back({{"name", algorithm->name},
                          {"collective", algorithm->collective},
                          {"summary", algorithm->summary},
                          {"groups", algorithm->shapes},
                          {"closed_form", algorithm->form}});
  }
  Json topologies = Json::array();
  for (const ShippedTopology& file : shipped_topologies()) {
    topologies.push_back({{"name", file.name}, {"summary", first_sentence(file.text)}});
  }
  Json cases = Json::array();
  for (const auto& [name, one] : operators::operator_cases()) {
    cases.push_back({{"name", name}, {"summary", one->summary()}});
  }
  return {{"kernbench", version()},
          {"benches", benches_as_json()},
          {"cases", cases},
          {"algorithms", algorithms},
          {"topologies", topologies}};
}

std::string entry(std::string_view name, std::string_view summary) {
  return wrapped(fmt::format("  {:<28}  {}", name, summary), std::string(32, ' ')) + '\n';
}

std::string all_as_text(const Console& console) {
  std::string text = "benches (kernbench run --bench NAME --set KEY=VALUE)\n";
  for (const auto& [name, info] : registered_benches()) {
    text += entry(name, info.summary);
    for (const SettingInfo& setting : info.settings) {
      const std::string key = fmt::format("  {}={}", setting.key, setting.fallback);
      text += console.faint(entry(key, setting.help));
    }
  }
  text += "\noperators (kernbench bench --case NAME)\n";
  for (const auto& [name, one] : operators::operator_cases()) {
    text += entry(name, one->summary());
  }
  text += "\nalgorithms (--set algorithm=NAME, or ccl.yaml)\n";
  for (const ccl::Algorithm* algorithm : ccl::algorithms()) {
    text += entry(algorithm->name, algorithm->summary.empty()
                                       ? std::string(algorithm->collective)
                                       : fmt::format("{} of {}: {}", algorithm->collective,
                                                     algorithm->shapes, algorithm->summary));
  }
  text += entry(ccl::kAuto, "all_reduce: the fastest of them by the model, for each size");
  for (const std::string& name : load_ccl("").unused_entries()) {
    text += entry(name, "an entry of the shipped ccl.yaml");
  }
  text += "\ntopologies (--topology NAME)\n";
  for (const ShippedTopology& file : shipped_topologies()) {
    text += entry(file.name, first_sentence(file.text));
  }
  return text;
}

}  // namespace

int list(const ListArguments& arguments) {
  if (!arguments.json.empty()) OutputFile(arguments.json).commit(all_as_json().dump(2) + '\n');
  if (arguments.json != "-") {
    Console console(STDOUT_FILENO);
    console.print(all_as_text(console));
    console.finish();
  }
  return 0;
}

}  // namespace kernbench::benches::cli
