// Reads a report that `kernbench run --json` wrote.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "benches/bench/report.h"
#include "benches/bench/row_json.h"
#include "benches/variants/comparison.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/input_file.h"

namespace kernbench::benches::variants {

namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kMaxReport = Bytes{1} << 30;

[[noreturn]] void refuse(const std::string& file, std::string_view why) {
  throw ConfigError("KB-I003", "{} {}", in_quotes(file), why);
}

}  // namespace

SavedReport read_report(const std::string& file) {
  Json json;
  try {
    json = parse_rows_json(read_input_file(file, kMaxReport));
  } catch (const Error&) {
    throw;  // it cannot be read
  } catch (const std::exception& error) {
    refuse(file, "is damaged, or no JSON: " + shown(error.what()));
  }
  if (!json.is_object() || !json.contains("kernbench") || !json.contains("rows")) {
    refuse(file, "is no report of kernbench run --json: it has no 'kernbench' and 'rows'");
  }
  const Json& made_by = json["kernbench"];
  if (made_by != version()) {
    refuse(file, fmt::format("was written by kernbench {}, and this is {}: run it again",
                             shown(made_by.dump()), version()));
  }
  try {
    return {.file = file,
            .bench = json.at("bench"),
            .topology = json.at("topology"),
            .rows = rows_from_json(json.at("rows"))};
  } catch (const std::exception& error) {
    refuse(file, "is damaged: " + shown(error.what()));
  }
}

}  // namespace kernbench::benches::variants
