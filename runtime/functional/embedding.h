// Looks up rows of a table by their numbers.

#pragma once

#include <cstdint>
#include <optional>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

struct EmbeddingOptions {
  // The number of the table's first row, if it is a part of a larger one.
  std::optional<std::int64_t> first_index = std::nullopt;
};

// Returns row `indices[i] - first_index` of the table [n, h] for each of the indices [...]: [...,
// h].  Indices are i64, i32 or, for up to 2^24 rows, whole numbers in f32.  An index that is no row
// is refused with torch's text if the host knows it, which does not wait for indices that are being
// computed (ADR-0247); of these, and of a part of a larger table, it gives a row of zeros, as the
// other parts of a split vocabulary need.  Each index becomes a row with a single 1, which is
// multiplied with the table: columns where the table is finite are exact, and in the others every
// row is NaN.  So it takes the time of a product [indices, n] x [n, h], forward and backward, where
// a device with gathers would only move rows.
//
// The result's placement on each level, from those of indices and table:
//   replicate, replicate          -> replicate     replicate, columns cut -> columns cut
//   first dimension cut, replicate -> the same     replicate, rows cut    -> partial
// Throws DeviceError KB-F001, KB-F002 for indices of another type, KB-F003.
Tensor embedding(const Tensor& indices, const Tensor& table, const EmbeddingOptions& options = {});

}  // namespace kernbench::nn::functional
