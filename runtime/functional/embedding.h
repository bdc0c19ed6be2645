// Rows of a table, by their numbers.

#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

struct EmbeddingOptions {
  std::int64_t first_index = 0;  // of the table's first row: a part of a larger table
};

// Row `indices[i] - first_index` of the table [n, h] for each of the indices [...]: [..., h].
// Indices are whole numbers in f32, which has them up to 2^24; one that the table does not have
// gives a row of zeros, as of the other parts of a vocabulary (torch's is an error: kernels cannot
// look at values).  Each index becomes a row with a single 1, which is multiplied with the table:
// exact where the table is finite (and where it is not, every row of the result is NaN there).  So
// its time is that of a product [indices, n] x [n, h], forward and backward, where a device with
// gathers would only move rows.
//
// On each level of the placement, indices and table:
//   replicate, replicate          -> replicate     replicate, columns cut -> columns cut
//   first dimension cut, replicate -> the same     replicate, rows cut    -> partial
// Throws DeviceError KB-F001, KB-F002 if indices are not f32, KB-F003.
Tensor embedding(const Tensor& indices, const Tensor& table, const EmbeddingOptions& options = {});

}  // namespace kernbench::nn::functional
