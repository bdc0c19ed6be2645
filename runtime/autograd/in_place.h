// Operators that write into their first operand (ADR-0130).

#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/autograd/node.h"

namespace kernbench::autograd {

// Returns true if writing a result of these operands into the first of them changes its history:
// then the caller calls record_in_place() after the write.  Throws CollectiveError KB-A008 for a
// leaf that requires a gradient, or a view of one; KB-A009 for a view made without gradients.
bool check_in_place(std::string_view name, const std::vector<Tensor>& operands);

// Gives the first operand, or the tensor that it is a view of, a new history.  `backward` computes
// the gradients of the operands, the first as it was before, from that of the first operand.
void record_in_place(std::string_view name, const std::vector<Tensor>& operands, Backward backward);

// Tensor::copy_() of a source with the target's shape, with what it records and refuses.
void copy_elements(const Tensor& target, const Tensor& source, const Location& location);

// Gives a tensor that was written, and is no view, the history that ends in `node`.
void set_history(const Tensor& written, std::shared_ptr<Node> node);

}  // namespace kernbench::autograd
