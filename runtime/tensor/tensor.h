// A tensor on one device, cut in shards (ADR-0026), or a host tensor to copy from.

#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/tensor/dp_policy.h"
#include "runtime/tensor/shape.h"
#include "sim_engine/base/dtype.h"

namespace Eigen {
template <class Scalar, int Rows, int Columns, int Options, int MaxRows, int MaxColumns>
class Matrix;  // for to_eigen(); this header does not need Eigen
}

namespace kernbench {

class RuntimeContext;

// The user's line, for messages.
using Location = std::source_location;

// As torch's keyword arguments of zeros(), full(), ...
struct TensorOptions {
  DType dtype = DType::f32;
  DPPolicy dp = {};
  std::string name = {};  // for messages; "tensor<n>" if empty
  // Of a single driver's tensor whose PEs are ranks (ADR-0024): the SIPs, from the caller's device
  // on, over which the last dimension is cut before `dp` places each part.
  int num_sips = 1;
};

// A handle, as in PyTorch: copies refer to the same tensor.  Memory is freed with the last one.
class Tensor {
 public:
  Tensor() = default;  // no tensor

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const;
  std::int64_t numel() const { return shape().numel(); }
  DType dtype() const;
  const std::string& name() const;
  bool is_host() const;
  int device() const;          // the SIP; REQUIRES: !is_host()
  const DPPolicy& dp() const;  // REQUIRES: !is_host()

  // Where its parts lie: (sip, cube, pe), slice and address; by cube, then PE.
  const std::vector<ShardInfo>& shards() const;

  // Element `index` of the first dimension, counted from the end if it is negative: row i of a
  // matrix, an element of a vector.  A view (torch.select): what is written into it is written into
  // this tensor, and gradients flow through it.  Where the first dimension is cut, the view lies on
  // the holders of that row alone; then the host reads and writes it, launch() takes it, and
  // operators and collectives do not.
  // Throws DeviceError KB-M017 if there is no such dimension or index.
  Tensor operator[](std::int64_t index) const;

  // Writes `source`, of the same shape, into this tensor: over the host link, in simulated time. Of
  // a partial tensor the first holder gets the values and the others 0, so that the value is
  // source's.  Elements are rounded to this tensor's type.  Waits until it is done.
  //
  // torch's copy_, recorded as there (ADR-0162): of a device's tensor, the gradient of this tensor,
  // and of all that it is a view of or that are views of it, flows to `source` from now on, and
  // none to what its old elements were computed from.  A host tensor is a constant; into a leaf
  // that requires a gradient it is loaded, as by load_state_dict(). Throws DeviceError KB-M015 if
  // the shapes differ; CollectiveError KB-A008 for another source, with gradients enabled, into a
  // leaf that requires one or into a view of such a leaf, KB-A009 into a view that was made without
  // gradients, KB-G003 if an operation that was issued and not waited for uses this tensor.
  Tensor& copy_(const Tensor& source, Location location = Location::current());

  // The same for one holder alone: shards()[index] becomes `source`, of that shard's shape.  This
  // is how the summands of a partial tensor are given (DTensor.from_local).
  // Throws DeviceError KB-M017 if there is no such shard, KB-M015 if the shapes differ;
  // CollectiveError KB-A008 if a gradient would have to flow through it, which is not recorded.
  Tensor& copy_shard_(std::size_t index, const Tensor& source,
                      Location location = Location::current());

  // Autograd, as in PyTorch (ADR-0130).  Errors are CollectiveErrors with PyTorch's texts.

  // From now on operators on this tensor are recorded, so that backward() of what is computed from
  // it adds to grad().  KB-A002 for a host tensor, and if what was computed is to need none.
  Tensor& requires_grad_(bool requires_grad = true);
  // Also of what was computed from such a tensor.
  bool requires_grad() const;
  // Whether no operator that was recorded made it.
  bool is_leaf() const;
  // The sum of the gradients that reached this leaf: of its shape, type and placement, but partial
  // where the leaf is replicated and each holder has a summand of the gradient.  Undefined if none
  // has.
  Tensor grad() const;
  // grad() is undefined from now on (torch's set_to_none).
  void zero_grad();
  // The same elements in the same memory, without what was recorded.
  Tensor detach() const;
  // Adds the gradient of this tensor, of one element unless `gradient` is given, to grad() of every
  // leaf that it was computed from.  `gradient` has its shape and type, and its placement, but
  // replicated where this is partial.  What was kept for it is freed, unless `retain_graph`.
  // KB-A001 if nothing was recorded, KB-A003 for several elements, KB-A004 the second time, KB-A005
  // if a tensor that is needed was written meanwhile, KB-A006 for a gradient that does not fit.
  void backward(const Tensor& gradient = {}, bool retain_graph = false) const;

  // Host reads (the registry is runtime/tensor/host_read.h).  They wait until what this tensor
  // depends on is done, and take no simulated time themselves.

  // All elements, row by row.  A partial tensor's is the sum of its holders' in f32, in their
  // order.
  template <class T = float>
  std::vector<T> to_vector() const;
  // The elements of one holder (DTensor.to_local).  Throws DeviceError KB-M017 if there is none.
  std::vector<float> shard_to_vector(std::size_t index) const;
  // The only element.  Throws DeviceError KB-M016 if there is not exactly one.
  template <class T = float>
  T item() const {
    return static_cast<T>(read_item());
  }
  // One element.  Throws DeviceError KB-M017 if the index is out of range.
  float at(std::initializer_list<std::int64_t> index) const;
  // A row-major matrix.  REQUIRES: two dimensions; <Eigen/Core> is included where this is called
  template <class T = float>
  Eigen::Matrix<T, -1, -1, 1, -1, -1> to_eigen() const;

  struct Storage;
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  explicit Tensor(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {}

 private:
  std::vector<float> read_elements() const;
  std::vector<float> read_for_eigen() const;
  float read_item() const;
  Storage& checked() const;

  std::shared_ptr<Storage> storage_;
};

// "tensor([[1, 2], [3, 4]], dtype=f16)"; of large tensors the first and last elements.  A host
// read.
std::string to_string(const Tensor& tensor);

template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<float> elements = read_elements();
  if constexpr (std::is_same_v<T, float>) {
    return elements;
  } else {
    return {elements.begin(), elements.end()};
  }
}

template <class T>
Eigen::Matrix<T, -1, -1, 1, -1, -1> Tensor::to_eigen() const {
  const std::vector<float> elements = read_for_eigen();
  Eigen::Matrix<T, -1, -1, 1, -1, -1> matrix(shape()[0], shape()[1]);
  for (std::int64_t row = 0; row < shape()[0]; ++row) {
    for (std::int64_t column = 0; column < shape()[1]; ++column) {
      matrix(row, column) =
          static_cast<T>(elements[static_cast<std::size_t>(row * shape()[1] + column)]);
    }
  }
  return matrix;
}

}  // namespace kernbench

template <>
struct fmt::formatter<kernbench::Tensor> : fmt::formatter<std::string_view> {
  fmt::format_context::iterator format(const kernbench::Tensor& tensor,
                                       fmt::format_context& context) const;
};
