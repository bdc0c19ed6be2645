// benches::Settings: what --set gives, one assignment in a line.

#include "benches/bench/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "sim_engine/topology/topology.h"
#include "test/fuzz/parser.h"

namespace kernbench::fuzz::settings {

namespace {

using benches::SettingInfo;
using benches::Settings;

// A setting of each type.
const std::vector<SettingInfo>& known() {
  static const std::vector<SettingInfo> all = {
      {"count", "4", ""},   {"sizes", "1024,4096", ""}, {"bytes", "64Ki", ""}, {"on", "true", ""},
      {"names", "a,b", ""}, {"kind", "tcm", ""},        {"kinds", "tcm", ""},  {"text", "x", ""}};
  return all;
}

// Every value as its type has it, as assignments.
std::vector<std::string> values_of(const Settings& settings) {
  std::vector<std::string_view> kinds;
  for (const sim::BufferKind kind : settings.choices("kinds", sim::kBufferKinds)) {
    kinds.push_back(name_of(kind));
  }
  return {fmt::format("count={}", settings.integer("count", 1, 4096)),
          fmt::format("sizes={}",
                      fmt::join(settings.integers("sizes", -8, std::int64_t{1} << 40), ",")),
          fmt::format("bytes={}", settings.bytes("bytes", 0, (Bytes{1} << 53) - 1)),
          fmt::format("on={}", settings.flag("on")),
          fmt::format("names={}", fmt::join(settings.list("names"), ",")),
          fmt::format("kind={}", name_of(settings.choice("kind", sim::kBufferKinds))),
          fmt::format("kinds={}", fmt::join(kinds, ",")),
          fmt::format("text={}", settings.text("text"))};
}

// The text of two settings is the same only if they are: sweeps are known by it.
void check_text(const Settings& settings) {
  if (std::ranges::count(settings.to_text(), '\n') == std::ssize(known())) return;
  throw Finding("a value that looks like a further setting:\n" + settings.to_text());
}

void check(std::string_view input) {
  const Settings settings(known(), words_of(input));
  const std::vector<std::string> values = values_of(settings);
  check_text(settings);
  try {
    const std::vector<std::string> again = values_of(Settings(known(), values));
    if (again == values) return;
    throw Finding(fmt::format("printed and read again they are other settings: {} and {}",
                              fmt::join(values, " "), fmt::join(again, " ")));
  } catch (const Error& error) {
    throw Finding(fmt::format("accepted, and refused when printed: {}", error.what()));
  }
}

}  // namespace

Parser parser() {
  return {.name = "settings",
          .check = check,
          .refusal = ExitCode::usage,
          .words =
              "count sizes bytes on names kind kinds text = , true false 1 0 tcm sram hbm Ki "
              "Mi Gi KiB MiB GiB iB"};
}

}  // namespace kernbench::fuzz::settings
