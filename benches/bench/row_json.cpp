#include "benches/bench/row_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "benches/bench/cell.h"

namespace kernbench::benches {

namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity and no NaN; they are written as {"real": "inf"}.
Json lossless_json(const Cell& cell) {
  if (const double* real = std::get_if<double>(&cell); real != nullptr && !std::isfinite(*real)) {
    return {{"real", fmt::format("{}", *real)}};
  }
  return std::visit([](const auto& value) { return Json(value); }, cell);
}

// An infinity or a NaN, as lossless_json() has written it.
double not_finite(const std::string& text) {
  const double real = std::stod(text);
  if (std::isfinite(real) || fmt::format("{}", real) != text) throw std::invalid_argument(text);
  return real;
}

Cell parse_cell(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
      return nullptr;
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_unsigned:
      if (!std::in_range<std::int64_t>(json.get<std::uint64_t>())) break;
      return json.get<std::int64_t>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::object:
      return not_finite(json.at("real").get<std::string>());
    default:
      break;
  }
  throw std::invalid_argument("no cell");
}

}  // namespace

Json rows_to_json(std::span<const Row> rows) {
  Json json = Json::array();
  for (const Row& row : rows) {
    Json cells = Json::object();
    for (const auto& [column, cell] : row.cells()) cells[column] = lossless_json(cell);
    json.push_back(std::move(cells));
  }
  return json;
}

Json parse_rows_json(std::string_view text) {
  constexpr int kMaxDepth = 8;
  return Json::parse(text, [](int depth, Json::parse_event_t, const Json&) {
    if (depth > kMaxDepth) throw std::invalid_argument("nested too deeply");
    return true;
  });
}

std::vector<Row> rows_from_json(const Json& json) {
  if (!json.is_array()) throw std::invalid_argument("no rows");
  std::vector<Row> rows;
  for (const Json& cells : json) {
    if (!cells.is_object()) throw std::invalid_argument("no row");
    Row& row = rows.emplace_back();
    for (const auto& [column, cell] : cells.items()) row.set_cell(column, parse_cell(cell));
  }
  return rows;
}

}  // namespace kernbench::benches
