// Rows of a matrix in another order, wherever on their device they lie.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::moe {

// For each row of a result, the row of the source that it is, or kNoRow: zeros.
using RowSources = std::vector<std::int64_t>;
inline constexpr std::int64_t kNoRow = -1;

// Returns the rows with these numbers, `width` elements each, of a matrix whose rows have one or
// several of them: [n, width], or, of several side by side, [n / abreast, abreast width].  The
// result lies on PEs as x does.  Each PE loads the rows that it has once and stores each where it
// is wanted, on other PEs too: neighbours that stay neighbours by one command.  It records nothing.
// REQUIRES: x is a contiguous matrix whose columns are whole; both numbers of columns are multiples
// of the width, and `abreast` divides the number of rows
Tensor move_rows(std::string_view name, const Tensor& x, std::int64_t width, RowSources sources,
                 std::int64_t abreast = 1);

}  // namespace kernbench::moe
