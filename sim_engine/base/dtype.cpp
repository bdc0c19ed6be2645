#include "sim_engine/base/dtype.h"

#include "sim_engine/base/enum_names.h"

namespace kernbench {

std::string_view name_of(DType dtype) {
  constexpr std::array<std::string_view, 3> kNames = {"f16", "bf16", "f32"};
  return name_in(kNames, dtype);
}

std::string_view torch_name_of(DType dtype) {
  constexpr std::array<std::string_view, 3> kNames = {"Half", "BFloat16", "Float"};
  return name_in(kNames, dtype);
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : kDTypes) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace kernbench
