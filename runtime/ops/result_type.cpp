#include "runtime/ops/result_type.h"

#include <optional>

#include "runtime/ops/placement.h"
#include "runtime/tensor/describe.h"
#include "sim_engine/base/error.h"

namespace kernbench::ops {

namespace {

int category_of(DType dtype) {
  if (dtype == DType::boolean) return 0;
  return is_integral(dtype) ? 1 : 2;
}

// The type of one group of operands: tensors with dimensions, tensors without, or numbers.
class Group {
 public:
  void add(std::string_view name, DType dtype) {
    type_ = type_ ? promoted(name, *type_, dtype) : dtype;
  }
  // The group's type beside that of a group that comes before it.
  std::optional<DType> beside(const std::optional<DType>& first) const {
    if (!first) return type_;
    if (!type_) return first;
    return category_of(*type_) > category_of(*first) ? type_ : first;
  }

 private:
  std::optional<DType> type_;
};

}  // namespace

DType promoted(std::string_view name, DType a, DType b) {
  if (a == b) return a;
  if (is_float8(a) || is_float8(b)) {
    throw DeviceError("KB-F002",
                      "{}: Promotion for Float8 Types is not supported, attempted to promote {} "
                      "and {}; to() another type first",
                      name, torch_name_of(a), torch_name_of(b));
  }
  if (category_of(a) != category_of(b)) return category_of(a) > category_of(b) ? a : b;
  if (!is_integral(a)) return DType::f32;
  if (size_of(a) == size_of(b)) return DType::i16;  // of u8 and i8
  return size_of(a) > size_of(b) ? a : b;
}

DType result_type(std::string_view name, const std::vector<Tensor>& operands,
                  std::span<const Scalar> numbers) {
  Group with_dimensions;
  Group without;
  Group of_numbers;
  for (const Tensor& operand : operands) {
    (operand.dim() > 0 ? with_dimensions : without).add(name, operand.dtype());
  }
  for (const Scalar& number : numbers) of_numbers.add(name, number.type());
  return *of_numbers.beside(without.beside(with_dimensions.beside(std::nullopt)));
}

void check_can_cast(std::string_view name, DType result, const Tensor& target) {
  if (category_of(result) <= category_of(target.dtype())) return;
  throw DeviceError("KB-F002", "{}: result type {} can't be cast to the desired output type {}: {}",
                    name, torch_name_of(result), torch_name_of(target.dtype()),
                    runtime::describe(target));
}

}  // namespace kernbench::ops
