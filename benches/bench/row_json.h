// Rows as JSON that restores every cell exactly, for results that are saved and read again.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "benches/bench/row.h"

namespace kernbench::benches {

nlohmann::ordered_json rows_to_json(std::span<const Row> rows);

// Parses a file that may contain rows.  Throws std::exception if it is no JSON, or nested deeper
// than anything that is written here, since nlohmann's dump() recurses for each level.
nlohmann::ordered_json parse_rows_json(std::string_view text);

// The inverse of rows_to_json().  Throws std::exception if `json` has another form.
std::vector<Row> rows_from_json(const nlohmann::ordered_json& json);

}  // namespace kernbench::benches
