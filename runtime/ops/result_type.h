// torch's rules about the type of a result (torch.result_type, ADR-0243).

#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// Returns the smallest type that has the values of both, in torch's order: bool < u8 and i8 < i16 <
// i32 < i64 < f16 and bf16 < f32; u8 and i8 together are i16, f16 and bf16 f32.  Throws DeviceError
// KB-F002 for an 8-bit type and another one, in torch's words.
DType promoted(std::string_view name, DType a, DType b);

// Returns the type in which an operator computes.  A tensor without dimensions counts only if its
// category (bool, integers, floating point) is above that of all others, and a number only if it is
// above that of all tensors.
DType result_type(std::string_view name, const std::vector<Tensor>& operands,
                  std::span<const Scalar> numbers = {});

// Throws DeviceError KB-F002 if an in-place operator's result is of a higher category than its
// target.
void check_can_cast(std::string_view name, DType result, const Tensor& target);

}  // namespace kernbench::ops
