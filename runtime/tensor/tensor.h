// A tensor on one device, split into shards (ADR-0026), or a host tensor to copy from.

#pragma once

#include <fmt/core.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor_options.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/shape.h"
#include "sim_engine/base/units.h"

namespace Eigen {
template <class Scalar, int Rows, int Columns, int Options, int MaxRows, int MaxColumns>
class Matrix;  // for to_eigen(); this header does not need Eigen
}

namespace kernbench {

class RuntimeContext;

// The line of the user's call, for messages.
using Location = std::source_location;

// A handle, as in PyTorch: copies refer to the same tensor.  The memory is freed with the last
// handle.
class Tensor {
 public:
  Tensor() = default;  // no tensor
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  // A variable becomes a handle to another tensor.  An assignment to the result of an expression
  // writes into its elements, as in libtorch: x[0] = y is x[0].copy_(y), and x[0] = 1 is
  // x[0].fill_(1).
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  const Tensor& operator=(const Tensor& source) && { return copy_(source); }
  const Tensor& operator=(const Scalar& value) && { return fill_(value); }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const;
  std::int64_t numel() const { return shape().numel(); }
  std::int64_t dim() const { return static_cast<std::int64_t>(shape().rank()); }
  const Shape& sizes() const { return shape(); }
  // In elements, as torch's; of a view of a tensor that is split, those of its first holder's part.
  std::vector<std::int64_t> stride() const;
  std::int64_t stride(int dim) const;
  // Negative dimensions count from the last.  Throws DeviceError KB-F001 if there is none.
  std::int64_t size(int dim) const;
  DType dtype() const;
  Bytes element_size() const { return size_of(dtype()); }
  Bytes nbytes() const { return numel() * element_size(); }
  const std::string& name() const;
  bool is_host() const;
  int device() const;          // the SIP; REQUIRES: !is_host()
  const DPPolicy& dp() const;  // REQUIRES: !is_host()

  // The places of its parts: (sip, cube, pe), slice and address; ordered by cube, then PE.
  const std::vector<ShardInfo>& shards() const;

  // Returns element `index` of the first dimension, counted from the end if it is negative: row i
  // of a matrix, an element of a vector.  It is a view (torch.select): writes into it change this
  // tensor, and gradients flow through it.  Where the first dimension is split, only the holders
  // of that row hold the view; then the host reads and writes it and launch() takes it, but
  // operators and collectives do not.
  // Throws DeviceError KB-M017 if there is no such dimension or index.
  Tensor operator[](std::int64_t index) const;

  // Writes `source`, which broadcasts to this shape, into this tensor, over the host link and in
  // simulated time.  In a partial tensor the first holder gets the values and the others 0, so that
  // the value is source's.  Elements are rounded to this tensor's type.  Waits until the copy is
  // done.
  //
  // This is torch's copy_, and is recorded as there (ADR-0130).  If the source is on a device, the
  // gradient of this tensor, and of all its views and the tensor that it is a view of, flows to
  // `source` from now on, and none to what its old elements were computed from.  A host tensor is
  // a constant; copied into a leaf that requires a gradient, it loads the leaf, as
  // load_state_dict() does.
  // Throws DeviceError KB-M015 if the source does not broadcast; CollectiveError KB-A008 if another
  // source is copied, with gradients enabled, into a leaf that requires a gradient or a view of
  // such a leaf; KB-A009 for a view that was made without gradients; KB-G003 if an operation that
  // was issued and not waited for uses this tensor.
  const Tensor& copy_(const Tensor& source, Location location = Location::current()) const;

  // Writes one holder's shard alone: shards()[index] becomes `source`, which has that shard's
  // shape.  The summands of a partial tensor are set in this way (DTensor.from_local).
  // Throws DeviceError KB-M017 if there is no such shard, KB-M015 if the shapes differ;
  // CollectiveError KB-A008 if a gradient would have to flow through it, which is not recorded.
  const Tensor& copy_shard_(std::size_t index, const Tensor& source,
                            Location location = Location::current()) const;

  // Autograd, as in PyTorch (ADR-0130).  Errors are CollectiveErrors with PyTorch's texts.

  // Records operators on this tensor from now on, so that backward() of a result adds to grad().
  // Throws KB-A002 for a host tensor, for one of integers, and if a computed tensor shall need no
  // gradient.
  const Tensor& requires_grad_(bool requires_grad = true) const;
  // True also for tensors that were computed from one that requires a gradient.
  bool requires_grad() const;
  // True if no recorded operator made this tensor.
  bool is_leaf() const;
  // The operator that made it, as torch prints it: "<AddBackward0>"; nullopt for a leaf.
  std::optional<std::string> grad_fn() const;
  // The sum of the gradients that reached this leaf, or this tensor after retain_grad().  It has
  // the tensor's shape, type and placement, but is partial where that is replicated and each holder
  // has a summand of the gradient.  Undefined if no gradient has reached it.
  Tensor grad() const;
  // grad() to assign to, such as a view of a flat buffer (libtorch's name).  backward() adds to
  // what it finds there, and throws KB-A006 if that does not fit this leaf.
  Tensor& mutable_grad() const;
  // Makes backward() leave the gradient of this computed tensor in grad(), as it does for a leaf
  // anyway.  Throws KB-A014 for a tensor that requires no gradient.
  void retain_grad() const;
  // Makes grad() undefined (torch's set_to_none).
  void zero_grad() const;
  // Returns a tensor with the same elements in the same memory, without the recorded history.
  Tensor detach() const;
  Tensor data() const { return detach(); }
  // Adds the gradient of this tensor to grad() of every leaf that it was computed from.  Without
  // `gradient` the tensor must have one element; `gradient` has its shape, type and placement, but
  // is replicated where this is partial.  Saved tensors are freed, unless `retain_graph`.
  // Throws KB-A001 if nothing was recorded, KB-A003 for several elements, KB-A004 the second time,
  // KB-A005 if a saved tensor was written meanwhile, KB-A006 for a gradient that does not fit.
  void backward(const Tensor& gradient = {}, bool retain_graph = false) const;

  // Calls hook(gradient) in each backward() as soon as the gradient of this tensor is complete, and
  // before it is added to grad() or flows on.  If the hook returns a tensor that is defined, this
  // takes the gradient's place; the hook must not write into its argument.  Hooks are called in the
  // order of their registration.  Returns a number for remove_hook().  Throws KB-A014 for a tensor
  // that requires no gradient.
  template <std::invocable<const Tensor&> Hook>
  unsigned register_hook(Hook hook) const {
    if constexpr (std::is_void_v<std::invoke_result_t<Hook&, const Tensor&>>) {
      return add_hook([hook = std::move(hook)](const Tensor& gradient) mutable {
        hook(gradient);
        return Tensor();
      });
    } else {
      return add_hook(std::move(hook));
    }
  }
  // Calls hook(tensor) in each backward() as soon as grad() of this leaf has been added to, while
  // the pass may still compute other gradients.  Throws KB-A014 for a tensor that is no leaf or
  // requires no gradient.
  unsigned register_post_accumulate_grad_hook(std::function<void(const Tensor& leaf)> hook) const;
  // Removes a hook of either kind.  Throws KB-A014 if there is none of this number.
  void remove_hook(unsigned number) const;

  // Host reads (the registry is runtime/tensor/host_read.h).  They wait until the operations that
  // this tensor depends on are done, and take no simulated time themselves.

  // Returns all elements, row by row.  Integers are exact in a type that has them.  Others become
  // integers as by to(DType): towards zero, the largest or smallest of T if they are too large, and
  // NaN 0; bool is whether they are not 0.  For a partial tensor they are the sums of the holders'
  // elements, in f32 or exactly, in the holders' order.
  template <class T = float>
  std::vector<T> to_vector() const {
    return converted<T>(Read::all);
  }
  // Returns the elements of one holder (DTensor.to_local), as to_vector().  Throws DeviceError
  // KB-M017 if there is no such holder.
  template <class T = float>
  std::vector<T> shard_to_vector(std::size_t index) const {
    return converted<T>(Read::shard, index);
  }
  // Returns the only element, as to_vector().  Throws DeviceError KB-M016 if there is not exactly
  // one.
  template <class T = float>
  T item() const {
    return converted<T>(Read::item).front();
  }
  // Returns one element, as to_vector(); negative indices count from the end.  Throws DeviceError
  // KB-M017 if the index is out of range.
  template <class T = float>
  T at(std::initializer_list<std::int64_t> index) const {
    return converted<T>(Read::element, find_position(index)).front();
  }
  // Returns a row-major matrix, its elements as by to_vector().
  // REQUIRES: two dimensions; <Eigen/Core> is included where this is called
  template <class T = float>
  Eigen::Matrix<T, -1, -1, 1, -1, -1> to_eigen() const {
    const std::vector<T> elements = converted<T>(Read::matrix);
    Eigen::Matrix<T, -1, -1, 1, -1, -1> matrix(shape()[0], shape()[1]);
    for (std::int64_t i = 0; i < numel(); ++i) {
      matrix(i / shape()[1], i % shape()[1]) = elements[static_cast<std::size_t>(i)];
    }
    return matrix;
  }

  // Operators as methods, as in PyTorch: x.exp() is exp(x).  runtime/functional documents them.
  Tensor add(const Tensor& other, double alpha = 1) const;
  Tensor add(const Scalar& number) const;
  Tensor sub(const Tensor& other, double alpha = 1) const;
  Tensor sub(const Scalar& number) const;
  Tensor mul(const Tensor&other) const, mul(const Scalar&number) const;
  Tensor div(const Tensor&other) const, div(const Scalar&number) const;
  Tensor remainder(const Tensor&other) const, remainder(const Scalar&number) const;
  Tensor fmod(const Tensor&other) const, fmod(const Scalar&number) const;
  Tensor floor_divide(const Tensor&other) const, floor_divide(const Scalar&number) const;
  Tensor lerp(const Tensor& end, double weight) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, const Scalar& value = 1) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, const Scalar& value = 1) const;
  Tensor pow(const Scalar& exponent) const;
  Tensor clamp(const Scalar& min = -std::numeric_limits<double>::infinity(),
               const Scalar& max = std::numeric_limits<double>::infinity()) const;
  Tensor pow(const Tensor& exponent) const;
  Tensor clamp_min(const Scalar& min) const;
  Tensor clamp_max(const Scalar& max) const;
  Tensor maximum(const Tensor&other) const, minimum(const Tensor&other) const;
  Tensor relu() const, sigmoid() const, tanh() const;
  Tensor softmax(int dim) const, log_softmax(int dim) const;
  Tensor masked_fill(const Tensor& mask, const Scalar& value) const;
  Tensor sum(const Dimensions& dims = {}, bool keepdim = false) const;
  Tensor mean(const Dimensions& dims = {}, bool keepdim = false) const;
  Tensor amax(const Dimensions& dims = {}, bool keepdim = false) const;
  Tensor amin(const Dimensions& dims = {}, bool keepdim = false) const;
  Tensor max() const, min() const, argmax() const, argmin() const;
  std::pair<Tensor, Tensor> max(int dim, bool keepdim = false) const;
  std::pair<Tensor, Tensor> min(int dim, bool keepdim = false) const;
  Tensor any(const Dimensions& dims = {}, bool keepdim = false) const;
  Tensor all(const Dimensions& dims = {}, bool keepdim = false) const;
  Tensor var(const Dimensions& dims = {}, bool unbiased = true, bool keepdim = false) const;
  Tensor std(const Dimensions& dims = {}, bool unbiased = true, bool keepdim = false) const;
  Tensor var(std::same_as<bool> auto unbiased) const { return var(Dimensions(), unbiased); }
  Tensor std(std::same_as<bool> auto unbiased) const { return std(Dimensions(), unbiased); }
  Tensor prod() const, prod(int dim, bool keepdim = false) const;
  Tensor logsumexp(const Dimensions& dims, bool keepdim = false) const;
  Tensor norm(double p = 2, const Dimensions& dims = {}, bool keepdim = false) const;
  Tensor argmax(int dim, bool keepdim = false) const;
  Tensor argmin(int dim, bool keepdim = false) const;
  Tensor cumsum(int dim) const;
  std::pair<Tensor, Tensor> sort(int dim = -1, bool descending = false) const;
  Tensor argsort(int dim = -1, bool descending = false) const;
  std::pair<Tensor, Tensor> topk(std::int64_t k, int dim = -1, bool largest = true) const;
  Tensor index_select(int dim, const Tensor& index) const;
  Tensor gather(int dim, const Tensor& index) const;
  Tensor scatter(int dim, const Tensor& index, const Tensor& src) const;
  Tensor scatter(int dim, const Tensor& index, const Scalar& value) const;
  Tensor scatter_add(int dim, const Tensor& index, const Tensor& src) const;
  Tensor index_add(int dim, const Tensor& index, const Tensor& src, double alpha = 1) const;
  Tensor multinomial(std::int64_t num_samples, bool replacement = false) const;
  Tensor median() const, bernoulli() const;
  std::pair<Tensor, Tensor> median(int dim, bool keepdim = false) const;
  Tensor eq(const Tensor&other) const, eq(const Scalar&number) const;
  Tensor ne(const Tensor&other) const, ne(const Scalar&number) const;
  Tensor lt(const Tensor&other) const, lt(const Scalar&number) const;
  Tensor le(const Tensor&other) const, le(const Scalar&number) const;
  Tensor gt(const Tensor&other) const, gt(const Scalar&number) const;
  Tensor ge(const Tensor&other) const, ge(const Scalar&number) const;
  Tensor logical_xor(const Tensor& other) const;
  Tensor logical_and(const Tensor&other) const, logical_or(const Tensor&other) const;
  bool equal(const Tensor& other) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8) const;
  Tensor matmul(const Tensor&other) const, mm(const Tensor&other) const;
  Tensor bmm(const Tensor&other) const, mv(const Tensor&vector) const;
  Tensor dot(const Tensor&other) const, outer(const Tensor&other) const;
  Tensor nonzero() const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor flip(const std::vector<int>& dims) const;
  Tensor roll(std::int64_t shift, std::optional<int> dim = {}) const;
  Tensor repeat_interleave(std::int64_t repeats, std::optional<int> dim = {}) const;
  Tensor tril(std::int64_t diagonal = 0) const;
  Tensor triu(std::int64_t diagonal = 0) const;
  Tensor reshape(std::initializer_list<std::int64_t> sizes) const;
  Tensor reshape(std::int64_t size) const;
  Tensor view(std::initializer_list<std::int64_t> sizes) const;
  Tensor view(std::int64_t size) const;
  Tensor view_as(const Tensor& other) const;
  Tensor flatten(int start_dim = 0, int end_dim = -1) const;
  Tensor repeat(const std::vector<std::int64_t>& times) const;
  Tensor unsqueeze(int dim) const, squeeze(int dim) const, squeeze() const;
  Tensor transpose(int dim0, int dim1) const;
  Tensor permute(const std::vector<int>& dims) const;
  Tensor t() const, mT() const;
  Tensor expand(const std::vector<std::int64_t>& sizes) const;
  Tensor expand_as(const Tensor& other) const;
  Tensor narrow(int dim, std::int64_t start, std::int64_t length) const;
  Tensor slice(int dim, std::int64_t start,
               std::int64_t end = std::numeric_limits<std::int64_t>::max(),
               std::int64_t step = 1) const;
  Tensor select(int dim, std::int64_t index) const;
  std::vector<Tensor> split(std::int64_t split_size, int dim = 0) const;
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, int dim = 0) const;
  std::vector<Tensor> chunk(std::int64_t chunks, int dim = 0) const;
  std::vector<Tensor> unbind(int dim = 0) const;
  Tensor unfold(int dim, std::int64_t size, std::int64_t step) const;
  Tensor unflatten(int dim, const std::vector<std::int64_t>& sizes) const;
  Tensor contiguous() const;
  // True if its elements lie row by row in the memory of each holder.
  bool is_contiguous() const;
  // True if both lie in the same memory: one is a view of the other, or both of a third.
  bool is_alias_of(const Tensor& other) const;
  Tensor clone() const;
  Tensor to(DType dtype) const;
  Tensor half() const { return to(DType::f16); }
  Tensor bfloat16() const { return to(DType::bf16); }
  Tensor type_as(const Tensor& other) const { return to(other.dtype()); }
  Tensor to(const Tensor& other) const;  // to its type and device
  // A copy on another device, to which gradients flow (runtime/tensor/tensor_options.h); x itself
  // if it lies there.  cpu() is a host tensor, which is a constant.
  Tensor to(const Device& device) const;
  Tensor cpu() const;
  Tensor redistribute(const DPPolicy& dp) const;

  // Operators that write their result into this tensor.  They are recorded as copy_() is
  // (KB-A008, KB-A009), and a tensor that was saved for backward must not be written before it
  // (KB-A005).  The result's shape and placement must be this tensor's (KB-F001, KB-F003).
  const Tensor& add_(const Tensor& other, double alpha = 1) const;
  const Tensor& add_(const Scalar& number) const;
  const Tensor& sub_(const Tensor& other, double alpha = 1) const;
  const Tensor& sub_(const Scalar& number) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(const Scalar& number) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& div_(const Scalar& number) const;
  const Tensor &neg_() const, &exp_() const, &log_() const, &sqrt_() const, &rsqrt_() const;
  const Tensor &abs_() const, &square_() const, &reciprocal_() const, &relu_() const;
  const Tensor &sigmoid_() const, &tanh_() const;
  const Tensor& lerp_(const Tensor& end, double weight) const;
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, const Scalar& value = 1) const;
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, const Scalar& value = 1) const;
  const Tensor& pow_(const Scalar& exponent) const;
  const Tensor& clamp_(const Scalar& min = -std::numeric_limits<double>::infinity(),
                       const Scalar& max = std::numeric_limits<double>::infinity()) const;
  const Tensor& masked_fill_(const Tensor& mask, const Scalar& value) const;
  const Tensor& scatter_(int dim, const Tensor& index, const Tensor& src) const;
  const Tensor& scatter_(int dim, const Tensor& index, const Scalar& value) const;
  const Tensor& scatter_add_(int dim, const Tensor& index, const Tensor& src) const;
  const Tensor& index_add_(int dim, const Tensor& index, const Tensor& src, double alpha = 1) const;
  const Tensor& fill_(const Scalar& value) const;  // of a partial tensor: 0 alone
  const Tensor& zero_() const;
  // Random numbers of the device's generator, drawn by the host outside of simulated time, as those
  // of torch.rand are.
  const Tensor& uniform_(double from = 0, double to = 1) const;
  const Tensor& normal_(double mean = 0, double std = 1) const;
  const Tensor& operator+=(const Tensor& other) const { return add_(other); }
  const Tensor& operator-=(const Tensor& other) const { return sub_(other); }
  const Tensor& operator*=(const Tensor& other) const { return mul_(other); }
  const Tensor& operator/=(const Tensor& other) const { return div_(other); }
  const Tensor& operator+=(const Scalar& number) const { return add_(number); }
  const Tensor& operator-=(const Scalar& number) const { return sub_(number); }
  const Tensor& operator*=(const Scalar& number) const { return mul_(number); }
  const Tensor& operator/=(const Scalar& number) const { return div_(number); }

  struct Storage;
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  explicit Tensor(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {}

 private:
  // The elements that a host read asks for.
  enum class Read : std::uint8_t { all, shard, item, element, matrix };
  template <class Number>
  std::vector<Number> read(Read what, std::size_t index) const;
  std::size_t find_position(std::initializer_list<std::int64_t> index) const;
  template <class T>  // any arithmetic type (converted_elements.cpp)
  std::vector<T> converted(Read what, std::size_t index = 0) const;
  unsigned add_hook(std::function<Tensor(const Tensor& gradient)> hook) const;
  Storage& checked() const;

  std::shared_ptr<Storage> storage_;

 public:
  // x.exp(), x.sin(), x.floor(), ...
#define KERNBENCH_FUNCTION(name) Tensor name() const;
#include "runtime/tensor/functions.def"
};

// "tensor([[1, 2], [3, 4]], dtype=f16)"; a large tensor shows its first and last elements.  This
// is a host read.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Shape& shape);  // "[1, 64]"

}  // namespace kernbench

template <>
struct fmt::formatter<kernbench::Tensor> : fmt::formatter<std::string_view> {
  fmt::format_context::iterator format(const kernbench::Tensor& tensor,
                                       fmt::format_context& context) const;
};
