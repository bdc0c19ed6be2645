#include "benches/variants/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "benches/bench/inputs.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/machine_faults.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_document.h"
#include "sim_engine/config/yaml_key.h"
#include "sim_engine/topology/topology_keys.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::string_view kTopologyKey = "topology";
constexpr std::string_view kDigits = "0123456789.";

std::string trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(' ') + 1 - begin));
}

[[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view why) {
  throw UsageError("KB-U012", "--set {}={}: {}", shown(key), shown(value), why);
}

std::vector<std::string> split(std::string_view key, std::string_view text, char separator) {
  std::vector<std::string> values;
  std::string_view rest = text;
  while (true) {
    const std::size_t end = std::min(rest.find(separator), rest.size());
    values.push_back(trimmed(rest.substr(0, end)));
    const bool is_alone = end == rest.size() && values.size() == 1;
    if (values.back().empty() && !is_alone) {
      refuse(key, text, fmt::format("there is no value beside a '{}'", separator));
    }
    if (end == rest.size()) return values;
    rest.remove_prefix(end + 1);
  }
}

// "64,128 GB/s" stands for "64 GB/s" and "128 GB/s".
void spread_unit(std::vector<std::string>& values) {
  const std::string& last = values.back();
  const std::size_t unit = last.find_first_not_of(kDigits);
  if (unit == std::string::npos || unit == 0) return;
  const std::string ending = last.substr(unit);
  for (std::string& value : values) {
    if (value.find_first_not_of(kDigits) == std::string::npos) value += ending;
  }
}

std::vector<std::string> split_values(const Key& key, const std::string& text) {
  if (text.empty() || key.type == "path") return {text};
  std::vector<std::string> values = split(key.name, text, key.is_list() ? ';' : ',');
  if (!key.unit.empty()) {
    for (std::string& value : values) value = with_spaced_unit(value);
    spread_unit(values);
  }
  std::set<std::string_view> seen;
  for (const std::string& value : values) {
    if (!seen.insert(value).second) refuse(key.name, text, in_quotes(value) + " is given twice");
  }
  return values;
}

YamlChange to_yaml_change(const Choice& choice) {
  const bool is_list = choice.key->type == "list";
  return {.path = choice.key->path,
          .items = is_list ? split(choice.key->name, choice.value, ',')
                           : std::vector<std::string>{choice.value},
          .is_list = is_list};
}

std::vector<YamlChange> to_yaml_changes(const std::vector<Choice>& choices) {
  std::vector<YamlChange> changes;
  for (const Choice& choice : choices) changes.push_back(to_yaml_change(choice));
  return changes;
}

// The file itself is right, so an error is that of a value which --set gives.
[[noreturn]] void blame_set(const ConfigError& error) {
  throw UsageError("KB-U012", "--set: {}", error.what());
}

std::vector<std::string> list_topologies(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return {text};
  std::vector<std::string> names = split("topology", text, ',');
  for (const std::string& name : names) load_topology(name);
  return names;
}

}  // namespace

VariantRequest make_request(const VariantRequest& whole, const Variant& variant) {
  VariantRequest request{whole.bench, whole.topologies, whole.ccl, {}, whole.faults};
  for (const auto& [key, value] : variant.fixed) {
    request.assignments.push_back(fmt::format("{}={}", key, value));
  }
  for (const auto& [key, value, is_list] : variant.varied) {
    if (key == kTopologyKey) {
      request.topologies = value;
    } else {
      request.assignments.push_back(fmt::format("{}={}", key, value));
    }
  }
  return request;
}

VariantMaker::VariantMaker(const VariantRequest& request)
    : request_(request),
      topologies_(list_topologies(request.topologies)),
      keys_({.bench = request.bench, .topology = topologies_.front(), .ccl = request.ccl}) {
  axes_.push_back({nullptr, topologies_});
  for (const std::string& text : request.assignments) add(parse_assignment(text));
  for (const std::string& text : request.faults) {
    ParsedFault parsed = parse_fault(text);
    if (parsed.wrong.empty()) {
      faults_.push_back(std::move(parsed.fault));
    } else {
      throw UsageError("KB-U012", "--fault {}: {}", in_quotes(text), parsed.wrong);
    }
  }
}

void VariantMaker::add(const Assignment& assignment) {
  const Key& key = keys_.find(assignment.key);
  if (is_set(key)) {
    throw UsageError("KB-U010", "--set gives {} twice", key.name);
  }
  axes_.push_back({&key, split_values(key, assignment.value)});
}

std::size_t VariantMaker::count() const {
  std::size_t count = 1;
  for (const Axis& axis : axes_) {
    if (count > std::numeric_limits<std::size_t>::max() / axis.values.size()) {
      return std::numeric_limits<std::size_t>::max();
    }
    count *= axis.values.size();
  }
  return count;
}

std::vector<Choice> VariantMaker::choices_at(std::size_t index) const {
  std::vector<Choice> choices(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const Axis& axis = axes_[i];
    choices[i] = {axis.key, axis.values[index % axis.values.size()]};
    index /= axis.values.size();
  }
  return choices;
}

bool VariantMaker::is_set(const Key& key) const {
  return std::ranges::find(axes_, &key, &Axis::key) != axes_.end();
}

std::vector<Variant> VariantMaker::all(std::span<const Choice> more) const {
  std::vector<Variant> variants;
  for (std::size_t i = 0; i < count(); ++i) variants.push_back(make(choices_at(i), more));
  return variants;
}

Variant VariantMaker::first(std::span<const Choice> more) const {
  return make(choices_at(0), more);
}

Variant VariantMaker::make(std::vector<Choice> choices, std::span<const Choice> more) const {
  for (const Choice& choice : more) {
    const auto same = std::ranges::find(choices, choice.key, &Choice::key);
    same == choices.end() ? choices.push_back(choice) : void(*same = choice);
  }
  std::vector<std::string> settings;
  std::vector<Choice> of_topology;
  std::vector<Choice> of_ccl;
  std::vector<VariedCell> varied;
  std::vector<Assignment> fixed;
  std::string name;
  for (const auto& [key, value] : choices) {
    const std::string_view key_name = key == nullptr ? kTopologyKey : key->name;
    const auto axis = std::ranges::find(axes_, key, &Axis::key);
    if (axis != axes_.end() && axis->values.size() > 1) {
      varied.push_back({std::string(key_name), value, key != nullptr && key->is_list()});
      name += fmt::format("{}{}={}", name.empty() ? "" : " ", key_name, value);
    } else if (key != nullptr) {
      fixed.push_back({key->name, value});
    }
    if (key == nullptr) continue;
    if (key->owner == KeyOwner::bench) settings.push_back(fmt::format("{}={}", key->name, value));
    if (key->owner == KeyOwner::topology) of_topology.push_back({key, value});
    if (key->owner == KeyOwner::ccl) of_ccl.push_back({key, value});
  }
  const std::string& topology = choices.front().value;
  return {.name = std::move(name),
          .varied = std::move(varied),
          .fixed = std::move(fixed),
          .topology = make_topology(topology, of_topology),
          .ccl = make_ccl(ccl_of(topology, request_.ccl), of_ccl),
          .names_ccl = !request_.ccl.empty() || !of_ccl.empty(),
          .names_ccl_file = !request_.ccl.empty(),
          .ccl_name = ccl_name(ccl_of(topology, request_.ccl)),
          .settings = Settings(request_.bench->settings, settings)};
}

Topology VariantMaker::make_topology(const std::string& name,
                                     const std::vector<Choice>& changes) const {
  Topology topology = read_topology(name, changes);
  topology.faults.insert(topology.faults.end(), faults_.begin(), faults_.end());
  sim::check_faults(topology);
  return topology;
}

Topology VariantMaker::read_topology(const std::string& name,
                                     const std::vector<Choice>& changes) const {
  if (changes.empty()) return load_topology(name);
  const bool is_shipped = find_shipped_topology(name) != nullptr;
  try {
    return changed_topology(topology_text(name), is_shipped ? name + ".yaml" : name,
                            to_yaml_changes(changes));
  } catch (const ConfigError& error) {
    blame_set(error);
  }
}

ccl::Config VariantMaker::make_ccl(const std::string& name,
                                   const std::vector<Choice>& changes) const {
  if (changes.empty()) return load_ccl(name);
  YamlDocument document = YamlDocument::parse(ccl_text(name), ccl_name(name));
  try {
    for (const Choice& choice : changes) {
      YamlChange change = to_yaml_change(choice);
      change.path = ccl_path(*choice.key, name);
      document.change(change);
    }
    return ccl::Config::read(document);
  } catch (const ConfigError& error) {
    blame_set(error);
  }
}

std::string VariantMaker::inputs() const {
  std::string text = request_.bench->name;
  for (const std::string& name : topologies_) {
    text += '\n' + ccl_text(ccl_of(name, request_.ccl)) + '\n' + topology_text(name);
  }
  for (const Axis& axis : axes_) {
    if (axis.values.size() > 1) continue;  // names of points have them
    text += fmt::format("\n{}={}", axis.key == nullptr ? kTopologyKey : axis.key->name,
                        axis.values.front());
  }
  for (const Fault& fault : faults_) text += "\nfault " + fault.text;
  return text;
}

std::vector<std::string> VariantMaker::axes() const {
  std::vector<std::string> lines;
  for (const Axis& axis : axes_) {
    if (axis.values.size() < 2) continue;
    lines.push_back(fmt::format(
        "{}: {}", axis.key == nullptr ? kTopologyKey : axis.key->name,
        fmt::join(axis.values, axis.key != nullptr && axis.key->is_list() ? "; " : ", ")));
  }
  return lines;
}

}  // namespace kernbench::benches::variants
