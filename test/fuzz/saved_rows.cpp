// benches::parse_saved_rows(): what an evaluation bench has saved to draw its figures again.

#include "benches/evaluation/saved_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "benches/bench/content_hash.h"
#include "test/fuzz/parser.h"

namespace kernbench::fuzz::saved_rows {

namespace {

using benches::SavedRows;
using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "fuzz/1";
constexpr std::uint64_t kConfiguration = 0x0123456789abcdef;
constexpr std::ptrdiff_t kMostBrackets = 1000;

// The input with the checksum of its rows, so that damage reaches what is behind it.  The input
// itself if it is no such JSON.
std::string with_checksum(std::string_view input) {
  // nlohmann's dump() calls itself for each level.
  if (std::ranges::count_if(input, [](char c) { return c == '[' || c == '{'; }) > kMostBrackets) {
    return std::string(input);
  }
  try {
    Json json = Json::parse(input);
    json["checksum"] = fmt::format("{:016x}", benches::content_hash(json.at("rows").dump()));
    return json.dump();
  } catch (const Json::exception&) {
    return std::string(input);
  }
}

// Returns why it is refused; nothing if it is accepted.
std::string check_text(std::string_view text) {
  const SavedRows saved = benches::parse_saved_rows(text, kSchema, kConfiguration);
  if (!saved.problem.empty()) return saved.problem;
  const std::string printed = saved_rows_text(kSchema, kConfiguration, saved.rows);
  const SavedRows again = benches::parse_saved_rows(printed, kSchema, kConfiguration);
  if (!again.problem.empty()) throw Finding("accepted, and refused when printed: " + again.problem);
  if (saved_rows_text(kSchema, kConfiguration, again.rows) == printed) return {};
  throw Finding("printed and read again they are other rows:\n" + printed);
}

void check(std::string_view input) {
  const std::string first = check_text(input);
  const std::string second = check_text(with_checksum(input));
  if (!first.empty() && !second.empty()) throw IoError("KB-I010", second);
}

}  // namespace

Parser parser() {
  return {.name = "saved_rows",
          .check = check,
          .refusal = ExitCode::output,
          .words =
              "schema configuration checksum rows real inf nan -inf true false null fuzz/1 "
              "0123456789abcdef 1e308 1e400 -0.0 18446744073709551615 [ ] { } : , \" \\u0000 "
              "\\ud800"};
}

}  // namespace kernbench::fuzz::saved_rows
