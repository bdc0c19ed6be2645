#include <fmt/format.h>

#include <ostream>

#include "runtime/tensor/host_read.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

namespace {

constexpr std::int64_t kEdgeItems = 3;  // as torch.set_printoptions(edgeitems=3)
constexpr std::int64_t kSummarizeAbove = 1000;

template <class Number>
class Printer {
 public:
  Printer(const Tensor& tensor, const std::vector<Number>& elements)
      : shape_(tensor.shape()),
        elements_(elements),
        is_bool_(tensor.dtype() == DType::boolean),
        summarizes_(tensor.numel() > kSummarizeAbove) {}

  // Formats `count` elements from `first` on: those below one index of dimension `dimension - 1`.
  std::string text(std::size_t dimension, std::int64_t first, std::int64_t count) {
    if (dimension == shape_.rank()) {
      const Number element = elements_[static_cast<std::size_t>(first)];
      if (is_bool_) return fmt::format("{}", element != 0);
      if (element != element)
        return "nan";  // its sign differs among machines, and torch shows none
      return fmt::format("{}", element);
    }
    const std::int64_t size = shape_[dimension];
    const std::int64_t stride = size == 0 ? 0 : count / size;
    std::string text = "[";
    for (std::int64_t i = 0; i < size; ++i) {
      if (i > 0) text += ", ";
      if (summarizes_ && size > 2 * kEdgeItems && i == kEdgeItems) {
        text += "..., ";
        i = size - kEdgeItems;
      }
      text += this->text(dimension + 1, first + i * stride, stride);
    }
    return text + "]";
  }

 private:
  const Shape& shape_;
  const std::vector<Number>& elements_;
  const bool is_bool_;
  const bool summarizes_;
};

template <class Number>
std::string to_text(const Tensor& tensor) {
  const std::vector<Number> elements = tensor.to_vector<Number>();
  return Printer(tensor, elements).text(0, 0, tensor.numel());
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "tensor(undefined)";
  if (!tensor.is_host()) runtime::begin_host_read(*tensor.storage(), runtime::HostRead::format);
  return fmt::format(
      "tensor({}, dtype={})",
      is_integral(tensor.dtype()) ? to_text<std::int64_t>(tensor) : to_text<float>(tensor),
      name_of(tensor.dtype()));
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor);
}
std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << to_string(shape);
}

}  // namespace kernbench

fmt::format_context::iterator fmt::formatter<kernbench::Tensor>::format(
    const kernbench::Tensor& tensor, fmt::format_context& context) const {
  return fmt::formatter<std::string_view>::format(kernbench::to_string(tensor), context);
}
