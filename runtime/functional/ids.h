// Ids: whole numbers that pick the rows of a table, or classes.

#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// The type in which kernels compare ids with the numbers below `end`: f32, or i64 where f32 has not
// all of these.  An id that is rounded to f32 is above 2^24 before and after, and so equals none.
// Throws DeviceError KB-F002 if the ids' own type has not all of the numbers.
DType type_of_ids(std::string_view name, const Tensor& ids, std::int64_t end);
inline void check_id_type(std::string_view name, const Tensor& ids, std::int64_t end) {
  type_of_ids(name, ids, end);
}

// The numbers below `count` on x's holders in that type, as a tensor of one dimension.
Tensor numbers_beside(const Tensor& x, std::int64_t count);

// Throws DeviceError KB-F001 for an id that is no row of the table, with torch's text.  It does not
// wait for ids that an operation under way computes, nor does it check those.
void check_ids(std::string_view name, const Tensor& ids, const Tensor& table);

// Reads the targets and returns how many are not `ignore_index`: all in a run without values.
// Throws DeviceError KB-F004 for another one that is no class, with torch's text.
std::int64_t count_targets(std::string_view name, const Tensor& targets, std::int64_t class_count,
                           std::int64_t ignore_index);
inline void check_targets(std::string_view name, const Tensor& targets, std::int64_t class_count,
                          std::int64_t ignore_index) {
  count_targets(name, targets, class_count, ignore_index);
}

// The sum of the weights [c] of the targets that are not `ignore_index`; their number in a run
// without values.  Reads both.  REQUIRES: checked targets
double weigh_targets(const Tensor& targets, const Tensor& weight, std::int64_t ignore_index);

// The shape without its dimension of classes: the second one, or that of a vector.
Shape without_classes(const Shape& shape);
// Throws DeviceError KB-F001, in torch's words, unless the target has the input's shape without its
// dimension of classes.
void check_target_shape(std::string_view name, const Tensor& input, const Tensor& target);
// Throws DeviceError KB-F001, in torch's words, unless the weight is [classes] or undefined.
void check_class_weight(std::string_view name, const Tensor& weight, std::int64_t classes);
// Turns [n, c, d...] and [c] into [rows, c].
Tensor classes_in_rows(const Tensor& x);

// Throws DeviceError KB-F001, in torch's words, for an element outside of [0, 1].  It neither waits
// for nor checks elements that an operation under way computes.
void check_probabilities(std::string_view name, const Tensor& x);

}  // namespace kernbench
