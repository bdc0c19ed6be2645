// Several tensors one after the other in one tensor, as a collective takes them.
//
// Every holder's parts lie one after the other in its part of the flat tensor, so nothing moves
// between PEs; a level that cuts a tensor cuts the flat one, and holders with fewer elements than
// others have zeros instead.  A tensor whose holders have summands makes the flat tensor partial:
// beside it, of a replicated tensor only the first holder's elements count.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/parallel/bucket_assignment.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/units.h"

namespace kernbench::nn::parallel {

Bytes bytes_of(const Tensor& tensor);  // of its elements, each counted once
// Tensors are of one kind, and can share a buffer, if they have one type and the same holders, and
// are cut on the same levels.
std::vector<BucketItem> bucket_items(const std::vector<Tensor>& tensors);

// Alignments are counted in elements of each holder's shard.
struct FlatLayout {
  std::int64_t alignment = 1;   // of each tensor's beginning
  std::int64_t multiple = 1;    // that the whole length is
  std::int64_t parts = 1;       // equal ones of each holder's shard, which divide `multiple`
  bool holds_summands = false;  // of tensors that are replicated: the buffer is partial
};

class FlatBuffer {
 public:
  // Makes a buffer for tensors of one kind, which it holds as `dtype`.
  FlatBuffer(const std::vector<Tensor>& tensors, DType dtype, const FlatLayout& layout = {});

  // All elements: a vector, or of tensors that are cut, and several parts, a matrix with a row for
  // each part, whose columns are cut.
  const Tensor& tensor() const { return flat_; }
  // One of the layout's parts, as a view of the buffer.
  Tensor part(std::int64_t index) const;
  std::int64_t part_size() const { return part_size_; }  // of each holder

  // Copies the tensors, multiplied by `factor` in f32, into the buffer, by one kernel; zeros where
  // one is undefined.
  // REQUIRES: they have the shapes and placements of those that it was made for
  void pack(const std::vector<Tensor>& tensors, double factor = 1) const;
  // Returns the elements of a tensor as a view of the buffer; undefined where holders have parts of
  // it, or summands.
  Tensor view(std::size_t index, const Shape& shape) const;
  // The first element of a tensor in each holder's part.
  std::int64_t offset(std::size_t index) const { return offsets_[index]; }
  // Adds a tensor, in f32 with one rounding, to what the buffer has of it.  In a buffer of summands
  // the first holder adds one that is replicated.
  void add(std::size_t index, const Tensor& tensor) const;
  // Does as add() to zeros, whatever the buffer has.
  void set(std::size_t index, const Tensor& tensor) const;
  // Makes what the buffer has of these tensors zero, by one kernel.
  void clear(const std::vector<std::size_t>& indices) const;
  // Copies `flat`, the buffer or a tensor like it, of any type, into the tensors, but those that
  // are undefined, by one kernel. REQUIRES: neither `flat` nor a tensor is partial
  void unpack(const Tensor& flat, const std::vector<Tensor>& tensors) const;
  void unpack(const std::vector<Tensor>& tensors) const { unpack(flat_, tensors); }

 private:
  Tensor flat_;
  std::vector<std::int64_t> offsets_;  // in each holder's part
  std::vector<std::int64_t> lengths_;  // the most that a holder has
  std::int64_t parts_ = 1;
  std::int64_t part_size_ = 0;
};

}  // namespace kernbench::nn::parallel
