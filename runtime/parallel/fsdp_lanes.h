// The kernels of fsdp_copies.h for parameters whose rows the PEs of a device share.
//
// A flat buffer of such parameters is a matrix with a row for each rank, whose columns the same PEs
// share.  A PE is then a lane of the collective, and all lanes send equally much: each has an equal
// share of every parameter's rows of each rank.  Since PEs share a parameter by its rows, and each
// rank's rows anew, a copy moves elements between PEs of the device.

#pragma once

#include <string_view>
#include <vector>

#include "runtime/parallel/fsdp_copies.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::distributed::fsdp {

// True if PEs share the rows of a parameter, or the columns of a flat buffer.
bool is_shared(const Tensor& tensor);

struct RankRange {
  int first = 0;
  int count = 1;
};

// Copies the rows of these ranks, multiplied by `factor` in f32, into a flat buffer with a row for
// each of them, and zeros behind them.  A tensor with fewer rows than a parameter has its first.
void copy_in_to_lanes(std::string_view name, const Tensor& flat, const std::vector<Tensor>& tensors,
                      const std::vector<FlatRows>& layout, const RankRange& ranks,
                      double factor = 1);
// Copies rows out of a flat buffer, which has those of all ranks from rank 0 on, into tensors.
void copy_out_of_lanes(std::string_view name, const Tensor& flat,
                       const std::vector<Tensor>& tensors, const std::vector<FlatRows>& layout);

}  // namespace kernbench::distributed::fsdp
