#include "sim_engine/base/dtype.h"

#include "sim_engine/base/enum_names.h"

namespace kernbench {

std::string_view name_of(DType dtype) {
  constexpr std::array<std::string_view, kAllDTypes.size()> kNames = {
      "f16", "bf16", "f32", "i32", "i64", "bool", "f8e4m3fn", "f8e5m2", "u8", "i8", "i16"};
  return name_in(kNames, dtype);
}

std::string_view torch_name_of(DType dtype) {
  constexpr std::array<std::string_view, kAllDTypes.size()> kNames = {
      "Half",          "BFloat16",    "Float", "Int",  "Long", "Bool",
      "Float8_e4m3fn", "Float8_e5m2", "Byte",  "Char", "Short"};
  return name_in(kNames, dtype);
}

std::string_view torch_dtype_of(DType dtype) {
  constexpr std::array<std::string_view, kAllDTypes.size()> kNames = {
      "float16",       "bfloat16",    "float32", "int32", "int64", "bool",
      "float8_e4m3fn", "float8_e5m2", "uint8",   "int8",  "int16"};
  return name_in(kNames, dtype);
}

double largest_of(DType dtype) {
  constexpr std::array<double, kAllDTypes.size()> kLargest = {
      65'504, 0x1.FEp127, 0x1.FFFFFEp127, 0x1p31 - 1, 0x1.FFFFFFFFFFFFFp62, 1, 448, 57'344,
      255,    127,        32'767};
  return kLargest[static_cast<std::size_t>(dtype)];
}

std::string all_dtypes() {
  std::string names;
  for (const DType dtype : kAllDTypes) {
    if (!names.empty()) names += ", ";
    names += name_of(dtype);
  }
  return names;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : kDTypes) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace kernbench
