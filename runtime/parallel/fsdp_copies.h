// The kernels that copy between parameters and the flat buffers of fully_shard's collectives.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/ops/placement.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::distributed::fsdp {

// The place of the rows of dimension 0 of a parameter in a flat buffer.  Each rank's part has
// `padded_rows` of them, from element `offset` of the part on; ranks have consecutive ones, and
// zeros behind the last.  If PEs share the parameter, each lane's part of a rank's part has its
// share from there on (fsdp_lanes.h).
struct FlatRows {
  std::int64_t rows = 0;
  std::int64_t padded_rows = 0;
  std::int64_t row_elements = 0;
  std::int64_t offset = 0;
  std::int64_t lanes = 1;

  std::int64_t elements() const { return rows * row_elements; }
  std::int64_t padded_elements() const { return padded_rows * row_elements; }
  // The elements that each lane has of them.
  std::int64_t share() const { return sim::ceil_divide(padded_elements(), lanes); }
  // The ranks whose rows need no padding: the first ones.
  std::int64_t full_ranks() const { return padded_rows == 0 ? 0 : rows / padded_rows; }
  // The number of rows that a rank has.
  std::int64_t count_rows(int rank) const;
};

// Gives parameters their offsets, one after the other; returns the elements of a part, which all
// lanes have together.
// REQUIRES: all have the same number of lanes
std::int64_t set_offsets(std::vector<FlatRows>& layout);

// Makes a flat buffer for so many parts of `part` elements, beside parameters that lie as `like`.
// On levels that do not cut it, it is partial if one of the gradients is.
Tensor make_flat(const Tensor& like, std::string_view name, int parts, std::int64_t part,
                 DType dtype, const std::vector<Tensor>& gradients = {});
// Returns one of its parts, as a view.
Tensor part_of(const Tensor& flat, int index, std::int64_t part);

// True if a holder's elements of a tensor count in a flat buffer on this level: if the buffer is
// partial, those of a tensor that is not count on the first holder alone.
bool counts(const ops::Level& flat, const ops::Level& of_tensor, int holder);

// Each is one kernel.  Elements are rounded to the type of what they are copied to.
// REQUIRES: all tensors have the same holders, which share the rows of all of them, and the columns
// of the flat buffer, or of none

// Copies shards into a part, and zeros behind them where PEs share them; others have zeros.
void copy_in_shards(const Tensor& part, const std::vector<Tensor>& shards,
                    const std::vector<FlatRows>& layout);
// Copies a rank's rows of parameters into its part, and zeros behind them.
void copy_in_rows(const Tensor& part, const std::vector<Tensor>& parameters,
                  const std::vector<FlatRows>& layout, int rank);
// Copies the parts of all ranks into parameters.
void copy_out(const Tensor& flat, const std::vector<Tensor>& parameters,
              const std::vector<FlatRows>& layout, int ranks);
// Copies a part into the gradients of shards, which PEs share.
void copy_out_gradients(const Tensor& part, const std::vector<Tensor>& gradients,
                        const std::vector<FlatRows>& layout);
// Copies gradients, multiplied by `factor` in f32, into the parts of all ranks, and zeros behind
// them.  If `flat` is partial, a gradient that is not counts on the first holder alone.
void copy_in_gradients(const Tensor& flat, const std::vector<Tensor>& gradients,
                       const std::vector<FlatRows>& layout, int ranks, double factor);

}  // namespace kernbench::distributed::fsdp
