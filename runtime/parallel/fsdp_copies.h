// The kernels that copy between parameters and the flat buffers of fully_shard's collectives.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::distributed::fsdp {

// The place of the rows of dimension 0 of a parameter in a flat buffer.  Each rank's part has
// `padded_rows` of them, from element `offset` of the part on; ranks have consecutive ones, and
// zeros behind the last.
struct FlatRows {
  std::int64_t rows = 0;
  std::int64_t padded_rows = 0;
  std::int64_t row_elements = 0;
  std::int64_t offset = 0;

  std::int64_t elements() const { return rows * row_elements; }
  std::int64_t padded_elements() const { return padded_rows * row_elements; }
  // The ranks whose rows need no padding: the first ones.
  std::int64_t full_ranks() const { return padded_rows == 0 ? 0 : rows / padded_rows; }
  // The number of rows that a rank has.
  std::int64_t count_rows(int rank) const;
};

// Gives parameters their offsets, one after the other; returns the elements of a part.
std::int64_t set_offsets(std::vector<FlatRows>& layout);

// Each is one kernel.  Elements are rounded to the type of what they are copied to.
// REQUIRES: all tensors lie whole on the same PEs

// Copies padded shards into a part.
void copy_in_shards(const Tensor& part, const std::vector<Tensor>& shards,
                    const std::vector<FlatRows>& layout);
// Copies a rank's rows of parameters into its part, and zeros behind them.
void copy_in_rows(const Tensor& part, const std::vector<Tensor>& parameters,
                  const std::vector<FlatRows>& layout, int rank);
// Copies the parts of all ranks into parameters.
void copy_out(const Tensor& flat, const std::vector<Tensor>& parameters,
              const std::vector<FlatRows>& layout, int ranks);
// Copies gradients, multiplied by `factor` in f32, into the parts of all ranks, and zeros behind
// them.  If `flat` is partial, a gradient that is not counts on the first holder alone.
void copy_in_gradients(const Tensor& flat, const std::vector<Tensor>& gradients,
                       const std::vector<FlatRows>& layout, int ranks, double factor);

}  // namespace kernbench::distributed::fsdp
