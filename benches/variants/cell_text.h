#pragma once

#include <string>

#include "benches/bench/cell.h"

namespace kernbench::benches {

// The cell as CSV has it, without quotes.
std::string text_of(const Cell& cell);

}  // namespace kernbench::benches
