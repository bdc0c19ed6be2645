// `kernbench keys`.

#include "benches/variants/keys.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "benches/bench/bench_run.h"
#include "benches/bench/output_file.h"
#include "benches/bench/report.h"
#include "benches/cli/commands.h"
#include "sim_engine/base/line_width.h"

namespace kernbench::benches::cli {

namespace {

using Json = nlohmann::ordered_json;

const std::string kHelpColumn(56, ' ');

bool is_of_file(const variants::Key& key) {
  return key.owner != variants::KeyOwner::bench;
}

// The keys of the benches that are wanted, then those of the files.
std::vector<variants::Key> wanted_keys(const KeysArguments& arguments) {
  variants::KeySources sources{.topology = arguments.topology, .ccl = arguments.ccl};
  if (!arguments.bench.empty()) {
    sources.bench = &registered_benches().find(arguments.bench);
    return variants::Keys(sources).all();
  }
  std::vector<variants::Key> keys;
  for (const auto& [name, info] : registered_benches()) {
    sources.bench = &info;
    const variants::Keys all(sources);
    std::ranges::copy_if(all.all(), std::back_inserter(keys), std::not_fn(is_of_file));
  }
  sources.bench = nullptr;
  const variants::Keys of_files(sources);
  std::ranges::copy(of_files.all(), std::back_inserter(keys));
  return keys;
}

Json as_json(const std::vector<variants::Key>& keys) {
  Json all = Json::array();
  for (const variants::Key& key : keys) {
    all.push_back({{"key", key.name},
                   {"of", key.file},
                   {"type", key.type},
                   {"unit", key.unit},
                   {"allowed", key.allowed},
                   {"value", key.value},
                   {"help", key.help}});
  }
  return {{"kernbench", version()}, {"keys", all}};
}

// "a bandwidth, such as 64 GB/s": the form of the key's values.
std::string describe_form(const variants::Key& key) {
  std::string text = key.unit.empty() ? key.type : fmt::format("{} ({})", key.type, key.unit);
  if (!key.allowed.empty()) text += (key.unit.empty() ? ": " : " ") + key.allowed;
  return text;
}

std::string as_text(const std::vector<variants::Key>& keys, const Console& console) {
  std::string text =
      "--set KEY=VALUE; several values between commas, or lists between semicolons, "
      "make a grid\n";
  const std::string* file = nullptr;
  for (const variants::Key& key : keys) {
    if (file == nullptr || *file != key.file) text += fmt::format("\n{}\n", key.file);
    file = &key.file;
    text += wrapped(fmt::format("  {:<30}  {:<20}  {}", key.name,
                                key.value.empty() ? "-" : key.value, key.help),
                    kHelpColumn) +
            '\n';
    text += console.faint(wrapped(kHelpColumn + describe_form(key), kHelpColumn) + '\n');
  }
  return text;
}

}  // namespace

int keys(const KeysArguments& arguments) {
  const std::vector<variants::Key> all = wanted_keys(arguments);
  if (!arguments.json.empty()) OutputFile(arguments.json).commit(as_json(all).dump(2) + '\n');
  if (arguments.json != "-") {
    Console console(STDOUT_FILENO);
    console.print(as_text(all, console));
    console.finish();
  }
  return 0;
}

}  // namespace kernbench::benches::cli
