#include "benches/row_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "benches/cell.h"

namespace kernbench::benches {

namespace {

using Json = nlohmann::ordered_json;

// JSON knows no infinity and no NaN: {"real": "inf"}.
Json lossless_json(const Cell& cell) {
  if (const double* real = std::get_if<double>(&cell); real != nullptr && !std::isfinite(*real)) {
    return {{"real", fmt::format("{}", *real)}};
  }
  return std::visit([](const auto& value) { return Json(value); }, cell);
}

Cell cell_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return json.get<std::int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::object:
      return std::stod(json.at("real").get<std::string>());
    default:
      return nullptr;
  }
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

std::vector<Row> rows_from_json(const Json& json) {
  std::vector<Row> rows;
  for (const Json& cells : json) {
    Row& row = rows.emplace_back();
    for (const auto& [column, cell] : cells.items()) row.set_cell(column, cell_of(cell));
  }
  return rows;
}

}  // namespace kernbench::benches
