// The members of a RuntimeContext that are namespaces of torch, and torch's functions of tensors.

#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/stream/stream.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/memory_kind.h"
#include "sim_engine/base/units.h"

namespace kernbench {

namespace runtime {
class Simulation;
}

namespace ahbm {

// Of torch.cuda's properties those that a SIP has.
struct DeviceProperties {
  std::string name;
  Bytes total_memory = 0;         // of its HBM
  int multi_processor_count = 0;  // PEs
};

// The bytes of each kind that a device's HBM holds, and held when it held most (the
// allocated_bytes of torch.cuda.memory_stats(), by torch.profiler's categories).
struct MemoryStats {
  MemoryByKind current;
  MemoryByKind peak;
};

// A tensor that holds HBM, or queues.
struct MemoryBlock {
  std::string name;
  MemoryKind kind = MemoryKind::temporary;
  std::string module = {};  // "blocks.3.q": that made it or has it; empty: none, or the outermost
  Bytes bytes = 0;
};

// The blocks of a device at the instant at which it held most.
struct MemorySnapshot {
  Time at{0};
  std::vector<MemoryBlock> blocks;  // in the order of their creation
};

}  // namespace ahbm

// torch.ahbm, modelled on torch.cuda: the device (SIP) of each rank.
class AhbmNamespace {
 public:
  explicit AhbmNamespace(std::shared_ptr<runtime::Simulation> simulation)
      : simulation_(std::move(simulation)) {}

  static bool is_available() { return true; }
  // Throws CollectiveError KB-R003 if there is no such device.
  void set_device(int device);

  // The caller's device; 0 before set_device().
  int current_device() const;
  int device_count() const;

  // Makes a stream of the device, or of the current one.  Throws KB-R003 if there is no such
  // device.
  ahbm::Stream Stream(std::optional<int> device = std::nullopt) const;
  ahbm::Event Event(const ahbm::EventOptions& options = {}) const;
  ahbm::Stream current_stream(std::optional<int> device = std::nullopt) const;
  ahbm::Stream default_stream(std::optional<int> device = std::nullopt) const;
  void set_stream(const ahbm::Stream& stream) const;
  // `const auto guard = torch.ahbm.stream(s);` makes s the current stream in its scope.
  // This and set_stream() throw DeviceError KB-M013 for a stream of another context.
  ahbm::StreamContext stream(const ahbm::Stream& stream) const;
  // Blocks the host until all that the caller has issued to the device, or to the current one, is
  // done: kernels and collectives.  Throws what one of them has failed with.
  void synchronize(std::optional<int> device = std::nullopt) const;

  // The bytes of a device's HBM that tensors and queues hold, in blocks of 256 B; the most that
  // they have held at a time, since the beginning or reset_peak_memory_stats().  Without a device
  // it is the caller's.  As in PyTorch a tensor's memory is free when its last handle is gone,
  // though launches that use it may still be queued, and nothing waits for the device.  Throw
  // CollectiveError KB-R003 if there is no such device.
  Bytes memory_allocated(std::optional<int> device = {}) const;
  Bytes max_memory_allocated(std::optional<int> device = {}) const;
  void reset_peak_memory_stats(std::optional<int> device = {}) const;
  // The same by kind.  A tensor is of the strongest kind that it has had so far.
  ahbm::MemoryStats memory_stats(std::optional<int> device = {}) const;
  // From now on the path of the module is kept with each tensor, as in a profiled run
  // (RuntimeOptions::profile; torch.cuda.memory._record_memory_history).
  void record_memory_history() const;
  // The tensors that held memory at the peak.  Throws CollectiveError KB-A032 if no history is
  // kept.
  ahbm::MemorySnapshot peak_memory_snapshot(std::optional<int> device = {}) const;
  // The bytes of its HBM that are free, and all of them.
  std::pair<Bytes, Bytes> mem_get_info(std::optional<int> device = {}) const;
  // Does nothing: memory of a tensor whose last handle is gone is free at once.
  void empty_cache() const {}
  // "ahbm SIP 1", and what torch.cuda's program would ask of it.  Throw KB-R003 likewise.
  std::string get_device_name(std::optional<int> device = {}) const;
  ahbm::DeviceProperties get_device_properties(std::optional<int> device = {}) const;
  // The same as text, with a line for each name of tensors that hold memory, the largest first;
  // then what the most consisted of, by kind and, if a history is kept, by module.
  std::string memory_summary(std::optional<int> device = {}) const;

 private:
  int checked(std::optional<int> device) const;

  std::shared_ptr<runtime::Simulation> simulation_;
};

// torch.accelerator: PyTorch's device-neutral names for torch.ahbm.
class AcceleratorNamespace {
 public:
  explicit AcceleratorNamespace(AhbmNamespace& ahbm) : ahbm_(ahbm) {}

  void set_device_index(int device) { ahbm_.set_device(device); }
  int current_device_index() const { return ahbm_.current_device(); }
  int device_count() const { return ahbm_.device_count(); }
  ahbm::Stream current_stream(std::optional<int> device = std::nullopt) const {
    return ahbm_.current_stream(device);
  }
  void set_stream(const ahbm::Stream& stream) const { ahbm_.set_stream(stream); }
  void synchronize(std::optional<int> device = std::nullopt) const { ahbm_.synchronize(device); }

 private:
  AhbmNamespace& ahbm_;
};

}  // namespace kernbench

// The functions whose later arguments are tensors, numbers, texts and variables, and below those
// with a list in braces, of dimensions or of sizes.
// clang-format off
#define KERNBENCH_EACH_FUNCTION(visit)                                                           \
  visit(add) visit(addcdiv) visit(addcmul) visit(addmm) visit(allclose) visit(argmax)            \
  visit(argmin) visit(argsort) visit(bernoulli) visit(bmm) visit(chunk) visit(clamp)             \
  visit(clone) visit(cumsum) visit(div) visit(dot) visit(equal) visit(flatten)                   \
  visit(floor_divide) visit(fmod) visit(gather) visit(hypot) visit(index_add)                    \
  visit(index_select) visit(lerp) visit(log_softmax) visit(logical_and) visit(logical_or)        \
  visit(logical_xor) visit(masked_fill) visit(masked_select) visit(matmul) visit(max)            \
  visit(maximum) visit(median) visit(min) visit(minimum) visit(mm) visit(mul)                    \
  visit(multinomial) visit(mv) visit(narrow) visit(nonzero) visit(outer) visit(pow)              \
  visit(prod) visit(relu) visit(remainder) visit(repeat_interleave) visit(roll) visit(scatter)   \
  visit(scatter_add) visit(select) visit(sigmoid) visit(softmax) visit(sort) visit(squeeze)      \
  visit(sub) visit(tanh) visit(topk) visit(transpose) visit(tril) visit(triu) visit(unbind)      \
  visit(unsqueeze) visit(where)
#define KERNBENCH_EACH_FUNCTION_WITH_A_LIST(visit)                                               \
  visit(all, Dimensions) visit(amax, Dimensions) visit(amin, Dimensions)                         \
  visit(any, Dimensions) visit(logsumexp, Dimensions) visit(mean, Dimensions)                    \
  visit(sum, Dimensions) visit(var, Dimensions) visit(flip, std::vector<int>)                    \
  visit(permute, std::vector<int>) visit(reshape, Shape)                                         \
  visit(split, std::vector<std::int64_t>)
// clang-format on

namespace kernbench {

// torch's functions of tensors as members of the context, so that `torch.exp(x)` is exp(x)
// (ADR-0207).  runtime/functional documents and declares them; where that is not included there is
// nothing to call.

// Each calls the function of its name that belongs to its arguments.
namespace functions {

#define KERNBENCH_CALL(name)                                                         \
  inline constexpr auto name##_of = [](const auto&... arguments) -> decltype(auto) { \
    return name(arguments...);                                                       \
  };
#define KERNBENCH_CALL_WITH_A_LIST(name, List) KERNBENCH_CALL(name)
#define KERNBENCH_FUNCTION(name) KERNBENCH_CALL(name)
#include "runtime/tensor/functions.def"
KERNBENCH_EACH_FUNCTION(KERNBENCH_CALL)
KERNBENCH_EACH_FUNCTION_WITH_A_LIST(KERNBENCH_CALL_WITH_A_LIST)
KERNBENCH_CALL(cat)
KERNBENCH_CALL(stack)
inline constexpr auto einsum_of = [](std::string_view equation, const auto& operands) {
  return einsum(equation, operands);
};
#undef KERNBENCH_CALL
#undef KERNBENCH_CALL_WITH_A_LIST

}  // namespace functions

struct TorchFunctions {
#define KERNBENCH_MEMBER(name)                                \
  template <class... Arguments>                               \
  static decltype(auto) name(const Arguments&... arguments) { \
    return functions::name##_of(arguments...);                \
  }
// A list in braces has no type of its own: it is the default one.
#define KERNBENCH_MEMBER_WITH_A_LIST(name, List)                                     \
  static decltype(auto) name(const auto& x) {                                        \
    return functions::name##_of(x);                                                  \
  }                                                                                  \
  template <class Of, class Second = List, class... Rest>                            \
  static decltype(auto) name(const Of& x, const Second& list, const Rest&... rest) { \
    return functions::name##_of(x, list, rest...);                                   \
  }
#define KERNBENCH_FUNCTION(name) KERNBENCH_MEMBER(name)
#include "runtime/tensor/functions.def"
  KERNBENCH_EACH_FUNCTION(KERNBENCH_MEMBER)
  KERNBENCH_EACH_FUNCTION_WITH_A_LIST(KERNBENCH_MEMBER_WITH_A_LIST)
#undef KERNBENCH_MEMBER
#undef KERNBENCH_MEMBER_WITH_A_LIST

  // `std` alone names a namespace.
  static Tensor std(const Tensor& x, const auto&... rest) {
    return x.std(rest...);
  }
  static Tensor std(const Tensor& x, const Dimensions& dims, const auto&... rest) {
    return x.std(dims, rest...);
  }

  template <class List = std::vector<Tensor>>
  static Tensor cat(const List& tensors, int dim = 0) {
    return functions::cat_of(tensors, dim);
  }
  template <class List = std::vector<Tensor>>
  static Tensor stack(const List& tensors, int dim = 0) {
    return functions::stack_of(tensors, dim);
  }
  template <class List = std::vector<Tensor>>
  static Tensor einsum(std::string_view equation, const List& operands) {
    return functions::einsum_of(equation, operands);
  }
};

}  // namespace kernbench

#undef KERNBENCH_EACH_FUNCTION
#undef KERNBENCH_EACH_FUNCTION_WITH_A_LIST

namespace kernbench {

// In torch these are functions of a module; here they are members of the context.  The compiler
// says so.
#define KERNBENCH_NEEDS_CONTEXT(name, ...)                                           \
  template <class Of = Tensor>                                                       \
  Of name(__VA_ARGS__) {                                                             \
    static_assert(sizeof(Of) == 0, "the context comes first: torch." #name           \
                                   "(...), where torch is your kb::RuntimeContext"); \
    return {};                                                                       \
  }
KERNBENCH_NEEDS_CONTEXT(zeros, const Shape&, const TensorOptions& = {})
KERNBENCH_NEEDS_CONTEXT(ones, const Shape&, const TensorOptions& = {})
KERNBENCH_NEEDS_CONTEXT(empty, const Shape&, const TensorOptions& = {})
KERNBENCH_NEEDS_CONTEXT(rand, const Shape&, const TensorOptions& = {})
KERNBENCH_NEEDS_CONTEXT(randn, const Shape&, const TensorOptions& = {})
KERNBENCH_NEEDS_CONTEXT(full, const Shape&, const Scalar&, const TensorOptions& = {})
KERNBENCH_NEEDS_CONTEXT(arange, const Scalar&, const TensorOptions& = {})
KERNBENCH_NEEDS_CONTEXT(tensor, std::initializer_list<Scalar>, const TensorOptions& = {})
#undef KERNBENCH_NEEDS_CONTEXT

}  // namespace kernbench
