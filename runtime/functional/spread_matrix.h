// A matrix as it lies on the PEs of its device, for kernels that read and write rows of it wherever
// these are.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "runtime/tl/tl.h"

namespace kernbench::ops {

// The rows of a tensor for each index of its first dimension.
std::int64_t rows_per_index(const Shape& shape);

// The rows of a matrix's memory that one PE reads or writes, in the order of rows.
struct SpreadRows {
  std::vector<tl::RowBlock> blocks;
  bool are_own = true;  // they lie on the PE itself

  const tl::Pointer& first() const { return blocks.front().pointer; }
};

// The same as tl.composite takes them.
struct OperandRows {
  tl::Pointer first;
  tl::FurtherBlocks further;
  bool are_own = true;
};

// A row of its memory is a row of the matrix, or, of a turned view, a column.
class SpreadMatrix {
 public:
  // All dimensions but the last are rows.  Throws DeviceError KB-F003, in the name of the operator,
  // for rows in memory that are cut within.
  SpreadMatrix(std::string_view name, const Tensor& matrix, bool is_transposed = false);

  bool is_transposed() const { return is_transposed_; }
  std::int64_t pitch() const { return pitch_; }

  // The rows [begin, end) of memory, from `column` on, for a PE.  Of copies it has the nearest: its
  // own, or else that of its cube, or that of the PE with its number in another cube.
  SpreadRows rows_for(const sim::PeLocation& pe, std::int64_t begin, std::int64_t end,
                      std::int64_t column) const;
  // The same for tl.composite.  If the PEs of a launch have the same rows, they share one list.
  OperandRows operand_rows_for(const sim::PeLocation& pe, std::int64_t begin, std::int64_t end,
                               std::int64_t column) const;

 private:
  struct Held {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    sim::PeLocation home;
    tl::Pointer data;
  };

  // Pointers refer to it, and what they point to may be a view that is gone by then.
  std::shared_ptr<const std::string> name_;
  std::vector<Held> held_;  // by their begin; copies of the same rows lie beside each other
  std::int64_t pitch_ = 0;
  bool is_transposed_ = false;
  bool has_copies_ = false;  // PEs may have different ones
  // By their first row and the one behind the last: those that some PE has asked for, from column 0
  // on.
  mutable std::map<std::pair<std::int64_t, std::int64_t>, OperandRows> found_;
};

}  // namespace kernbench::ops
