#pragma once

#include <string>

#include "benches/bench/cell.h"

namespace kernbench::benches {

// The cell as CSV has it, without quotes: the shortest digits that read back as the same number, in
// any locale.
std::string to_text(const Cell& cell);

}  // namespace kernbench::benches
