#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench {

// Element types.  Arithmetic is done in f32 with one rounding to the type per operation (ADR-0020).
enum class DType : std::uint8_t { f16, bf16, f32 };

inline constexpr std::array kDTypes = {DType::f16, DType::bf16, DType::f32};

// Size of one element.
constexpr Bytes size_of(DType dtype) {
  return dtype == DType::f32 ? 4 : 2;
}

// "f16", "bf16", "f32".
std::string_view name_of(DType dtype);

// PyTorch's name: "Half", "BFloat16", "Float".
std::string_view torch_name_of(DType dtype);

// The inverse of name_of(); nullopt if there is no such type.
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace kernbench
