// Rows as JSON from which every cell comes back as it was: for what is saved and read again.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "benches/row.h"

namespace kernbench::benches {

nlohmann::ordered_json rows_to_json(std::span<const Row> rows);

// Throws std::exception if it is none of that.
std::vector<Row> rows_from_json(const nlohmann::ordered_json& json);

}  // namespace kernbench::benches
