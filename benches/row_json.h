// Rows as JSON from which every cell comes back as it was: for what is saved and read again.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "benches/row.h"

namespace kernbench::benches {

nlohmann::ordered_json rows_to_json(std::span<const Row> rows);

// What a file says, in which rows may stand.  Throws std::exception if it is no JSON, or nested
// more deeply than anything that is written here: nlohmann's dump() calls itself for each level.
nlohmann::ordered_json parse_rows_json(std::string_view text);

// Throws std::exception if it is none of that.
std::vector<Row> rows_from_json(const nlohmann::ordered_json& json);

}  // namespace kernbench::benches
