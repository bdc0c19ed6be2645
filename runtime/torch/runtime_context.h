// The object that users call `torch`.

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/distributed/distributed.h"
#include "runtime/launch/launch_name.h"
#include "runtime/multiprocessing/spawn.h"
#include "runtime/profiler/energy.h"
#include "runtime/profiler/profile.h"
#include "runtime/simulation/results.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tl/tl.h"
#include "runtime/torch/context_members.h"
#include "runtime/torch/runtime_options.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/trace/command_log.h"

namespace kernbench {

namespace runtime {
struct LaunchedTensors;
class Simulation;
}  // namespace runtime

// The results of a run: torch.engine().  All but the time first wait for what the caller has
// queued, as torch.ahbm.synchronize() does for each device.
class EngineView {
 public:
  explicit EngineView(runtime::Simulation& simulation) : simulation_(&simulation) {}

  // The simulated time at which the caller is.
  double now_ns() const { return to_ns(now()); }
  Time now() const;

  // Execution time of the slowest PE in the launch or collective that began last: from the kernel's
  // start on that PE to its end there.  0 if it ran on none.
  double critical_pe_exec_ns() const { return to_ns(critical_pe_exec()); }
  Time critical_pe_exec() const;

  // The longest time on a PE, in the same launch or collective, from the start of its first
  // tl.composite to the end of its last; 0 if there was none.
  double composite_window_ns() const { return to_ns(composite_window()); }
  Time composite_window() const;

  // The bytes that tl.load, tl.store and tl.composite have moved from and to HBM in the same launch
  // or collective, summed over PEs.
  Bytes hbm_bytes_loaded() const;
  Bytes hbm_bytes_stored() const;

  // The waits of the kernels of the same launch or collective and of their commands: for each
  // cause, the time on the PE that has waited longest for it.  last_results() has every PE's.
  sim::Waits longest_waits() const;
  // The waits of all kernels that have ended on a PE, and of their commands.  REQUIRES: there is
  // such a PE
  sim::Waits waits(const sim::PeLocation& pe) const;

  // Times since the beginning: how long kernels ran on a device, how long collectives of its rank
  // did, and how long both.  Subtract two of them to measure an interval.
  runtime::DeviceActivity activity(int device) const;

  // The algorithms that collectives have used, in the order of their first calls; empty on a
  // backend without a device.
  const std::vector<runtime::AlgorithmUse>& algorithms_used() const;

  // The unit that has served kernels for longest: the bottleneck.  Its share() relates to the time
  // in which kernels ran (sim::Machine::busiest_unit()).
  sim::UnitUse busiest_unit() const;

  // One entry per kernel and PE, in the order of their ends.  At least the last 32,768 are kept,
  // and at most twice as many, so that long runs do not fill the host's memory.
  const std::vector<runtime::KernelResult>& results() const;
  // The results of the launch or collective that began last.
  const std::vector<runtime::KernelResult>& last_results() const;
  // The operations that have finished on the device, in that order; only the last
  // RuntimeOptions::op_log_limit are kept.
  const sim::CommandLog& op_log() const;
  std::uint64_t event_count() const;

  // Returns the energy of what profiler::timed() has named, or of the whole run.
  runtime::EnergyUse energy() const;
  // Returns where the time went.  Without RuntimeOptions::profile it has no operations and no
  // waits.
  runtime::Profile profile() const;
  // The profile as text, at most 40 lines.
  std::string explain() const;
  // Writes a trace for ui.perfetto.dev, with what the run has recorded up to `level`.  Throws
  // CollectiveError KB-R030 if it records nothing, IoError KB-I010 if the file cannot be written.
  void write_trace(const std::string& path,
                   runtime::TraceLevel level = runtime::TraceLevel::units) const;

  // The fingerprint of the run; it is the same for equal runs, in every build.
  std::uint64_t fingerprint() const;

 private:
  const runtime::Simulation& settled() const;

  runtime::Simulation* simulation_;
};

// One simulated system and the host program's view of it.  A context must not be shared between
// threads; contexts in different threads are independent.
class RuntimeContext : public TorchFunctions {
 public:
  // Throws ConfigError if the topology cannot be built, CollectiveError KB-R018 if an option is
  // negative.
  explicit RuntimeContext(const Topology& topology, RuntimeOptions options = {});
  ~RuntimeContext();
  RuntimeContext(const RuntimeContext&) = delete;
  RuntimeContext& operator=(const RuntimeContext&) = delete;

  const Topology& topology() const;
  const RuntimeOptions& options() const { return options_; }
  EngineView engine() const { return EngineView(*simulation_); }

  // Make tensors on the caller's device (torch.ahbm.set_device).  Initializing them takes no
  // simulated time.  Throw DeviceError KB-M010 if a tensor does not fit, KB-M021 if the value is
  // finite and too large for the type.  Without a type they have the default one, whatever the
  // value (torch 1.13 makes i64 of a whole one).
  Tensor zeros(const Shape& shape, const TensorOptions& options = {}) const;
  Tensor ones(const Shape& shape, const TensorOptions& options = {}) const;
  Tensor full(const Shape& shape, const Scalar& value, const TensorOptions& options = {}) const;
  // Elements read as NaN until they are written.
  Tensor empty(const Shape& shape, const TensorOptions& options = {}) const;
  // Make tensors with the shape, type and placement of another one.
  Tensor zeros_like(const Tensor& like) const;
  Tensor ones_like(const Tensor& like) const;
  Tensor full_like(const Tensor& like, const Scalar& value) const;
  Tensor empty_like(const Tensor& like) const;
  Tensor rand_like(const Tensor& like) const;
  Tensor randn_like(const Tensor& like) const;

  // The numbers from start on, `step` apart, up to and without end; i64 if all three are whole.
  // Throws DeviceError KB-F001 if they would never get there, in torch's words.
  Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
                const TensorOptions& options = {}) const;
  Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options = {}) const {
    return arange(start, end, 1, options);
  }
  Tensor arange(const Scalar& end, const TensorOptions& options = {}) const {
    return arange(0, end, 1, options);
  }
  // linspace: [steps], numbers from start to end, both included, equally far apart.  eye: [n, m],
  // ones on the diagonal and 0 elsewhere, of n columns if m is not given.  They throw DeviceError
  // KB-F001 for a negative number of elements.
  Tensor linspace(double start, double end, std::int64_t steps,
                  const TensorOptions& options = {}) const;
  Tensor eye(std::int64_t n, const TensorOptions& options = {}) const { return eye(n, n, options); }
  Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options = {}) const;

  // Random numbers, from the generator of the caller's device (ADR-0208): those of a shape are the
  // same with every placement.  rand: in [0, 1); randn: normal, with mean 0 and variance 1;
  // randint: whole numbers in [low, high), i64 if no type is given; KB-F001 if there is none.
  Tensor rand(const Shape& shape, const TensorOptions& options = {}) const;
  Tensor randn(const Shape& shape, const TensorOptions& options = {}) const;
  Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
                 const TensorOptions& options = {}) const;
  Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options = {}) const {
    return randint(0, high, shape, options);
  }
  // The numbers below n in a random order, i64 if no type is given.
  Tensor randperm(std::int64_t n, const TensorOptions& options = {}) const;
  // Seeds the generator of the caller's device; outside of ranks, those of all devices.
  void manual_seed(std::uint64_t seed) const;

  // Returns the state of the generator of the caller's device as a host tensor of 16 u8.
  Tensor get_rng_state() const;
  void set_rng_state(const Tensor& state) const;
  // The type of tensors on a device that are given none: f32 until it is set; a rank's own, or the
  // driver's.  What integers and real numbers give is f32 anyway.  Throws KB-F002 for integers.
  void set_default_dtype(DType dtype);
  DType get_default_dtype() const;
  static Device device(std::string_view text) { return Device(text); }
  static Device device(std::string_view type, int index);

  // Make host tensors, to copy_ from: f32, or of integers the host's type (kDTypeOf).  The elements
  // are copied, row by row.  Throw DeviceError KB-M015 if their number is not the shape's.
  static Tensor from_blob(const float* elements, const Shape& shape) {
    return tensor(std::span(elements, static_cast<std::size_t>(shape.numel())), shape);
  }
  template <HostInteger Number>
  static Tensor from_blob(const Number* elements, const Shape& shape) {
    return of_integers({elements, elements + shape.numel()}, shape, kDTypeOf<Number>);
  }
  static Tensor tensor(std::span<const float> elements, const Shape& shape);
  static Tensor tensor(std::span<const std::int64_t> elements, const Shape& shape);
  template <HostInteger Number>
  static Tensor tensor(const std::vector<Number>& elements, const Shape& shape) {
    return of_integers({elements.begin(), elements.end()}, shape, kDTypeOf<Number>);
  }
  static Tensor tensor(std::initializer_list<float> elements, const Shape& shape) {
    return tensor(std::span(elements.begin(), elements.size()), shape);
  }
  static Tensor tensor(std::initializer_list<float> elements) {
    return tensor(elements, {std::ssize(elements)});
  }
  // Rows of a matrix: {{1, 2}, {3, 4}}.
  static Tensor tensor(std::initializer_list<std::initializer_list<float>> rows);
  // Make tensors on the caller's device, outside of simulated time.  Without a type, literals have
  // the default one, as in tensor({1, 2}, {2}, {.dp = dp}), and integers the host's.
  Tensor tensor(std::span<const float> elements, const Shape& shape,
                const TensorOptions& options) const;
  Tensor tensor(std::span<const std::int64_t> elements, const Shape& shape,
                const TensorOptions& options) const;
  template <HostInteger Number>
  Tensor tensor(const std::vector<Number>& elements, const Shape& shape,
                const TensorOptions& options) const {
    return of_integers({elements.begin(), elements.end()}, shape, kDTypeOf<Number>, options);
  }
  Tensor tensor(std::initializer_list<Scalar> elements, const Shape& shape,
                const TensorOptions& options) const;
  // Accepts any matrix expression of Eigen.
  template <class Matrix>
  static Tensor from_eigen(const Matrix& matrix);

  // Runs kernel(tl, arguments...) on every PE that holds a part of the first tensor, after what the
  // current stream was given before.  It returns when the launch is issued, if the kernel and its
  // arguments own what they use (a function or a lambda without captures; tensors and numbers),
  // and else, or if launches block (RuntimeOptions::launch_blocking), when all PEs have finished.
  // An argument that is a Tensor, or derived from it (a layer's parameter), arrives as tl::Pointer
  // to that PE's shard; any other argument arrives unchanged.
  // Throws what a kernel throws: an Error unchanged, else DeviceError KB-K001; of a launch that has
  // returned, the next host read, synchronize(), blocking call or worker's end throws it.  Throws
  // CollectiveError KB-G003 if an operation that was issued and not waited for will write one of
  // the tensors, or reads one that the kernel stores into.
  template <class Kernel, class... Arguments>
  void launch(const runtime::LaunchName& name, const Kernel& kernel, const Arguments&... arguments);

  // Throws DeviceError unless the tensor lies on a device of this context: KB-M001 undefined,
  // KB-M019 on the host, KB-M013 of another context.  `user` is what wants to use it.
  void check_on_device(const Tensor& tensor, std::string_view user) const;

  // Returns a pointer to a PE's shard of a tensor, for kernels that do not have it as an argument;
  // null if the PE holds none.  Loads and stores through it are refused as a launch would be
  // (KB-G003).
  static tl::Pointer pointer_to(const Tensor& tensor, const sim::PeLocation& pe);

 private:
  friend const std::shared_ptr<runtime::Simulation>& shared_simulation_of(const RuntimeContext&);
  Tensor make(const Shape& shape, const TensorOptions& options) const;
  template <class Number>
  Tensor make(const Shape& shape, const TensorOptions& options, std::vector<Number> elements) const;
  using Integers = std::vector<std::int64_t>;
  static Tensor of_integers(Integers elements, const Shape& shape, DType dtype);
  Tensor of_integers(Integers, const Shape& shape, DType dtype, const TensorOptions& options) const;
  static void check_count(std::size_t elements, const Shape& shape);  // throws KB-M015
  void launch_on_holders(const runtime::LaunchName& name, const Tensor& first,
                         std::vector<Tensor> uses, std::function<void(tl::Context&)> body,
                         bool body_owns);
  bool queues_launches() const;

  const RuntimeOptions options_;
  const std::shared_ptr<runtime::Simulation> simulation_;
  mutable std::uint64_t tensor_count_ = 0;  // for names
  DType default_dtype_ = DType::f32;        // the driver's

 public:
  AhbmNamespace ahbm{simulation_};
  AcceleratorNamespace accelerator{ahbm};
  distributed::DistributedContext distributed{*this, simulation_, options_.ccl,
                                              *options_.reproducible};
  multiprocessing::Multiprocessing multiprocessing{*simulation_, distributed};
};

template <class Matrix>
Tensor RuntimeContext::from_eigen(const Matrix& matrix) {
  const std::int64_t columns = matrix.cols();
  std::vector<float> elements(static_cast<std::size_t>(matrix.rows() * columns));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    elements[i] = static_cast<float>(matrix(at / columns, at % columns));
  }
  return tensor(elements, {matrix.rows(), columns});
}

namespace runtime {

// Keeps the tensors of a launch: errors of its kernel take their names from there.
std::shared_ptr<const LaunchedTensors> launched_tensors(std::vector<Tensor> tensors);

// Converts an argument of launch() to what the kernel receives.
tl::Pointer kernel_argument(const Tensor& tensor, const sim::PeLocation& pe,
                            const LaunchedTensors& launched);
template <class Value>
requires(!std::derived_from<Value, Tensor>) const Value& kernel_argument(const Value& value,
                                                                         const sim::PeLocation&,
                                                                         const LaunchedTensors&) {
  return value;
}

void collect_tensor(std::vector<Tensor>& tensors, const Tensor& tensor);
template <class Value>
requires(!std::derived_from<Value, Tensor>) void collect_tensor(std::vector<Tensor>&,
                                                                const Value&) {}

// True if a copy of it can be used after the call that it was an argument of.
template <class Argument>
inline constexpr bool owns_its_data =
    std::derived_from<Argument, Tensor> || std::is_arithmetic_v<Argument> ||
    std::is_enum_v<Argument> || std::is_function_v<Argument> || std::is_empty_v<Argument> ||
    std::is_function_v<std::remove_pointer_t<Argument>>;

// Copies an argument of launch(): of what is derived from a tensor, the tensor.
template <class Argument>
using CopyOf = std::conditional_t<std::derived_from<Argument, Tensor>, Tensor, Argument>;

}  // namespace runtime

template <class Kernel, class... Arguments>
void RuntimeContext::launch(const runtime::LaunchName& name, const Kernel& kernel,
                            const Arguments&... arguments) {
  std::vector<Tensor> tensors;
  (runtime::collect_tensor(tensors, arguments), ...);
  const Tensor first = tensors.front();
  const auto launched = runtime::launched_tensors(tensors);
  static_assert((std::derived_from<Arguments, Tensor> || ...), "launch() needs a tensor");
  if constexpr ((runtime::owns_its_data<Kernel> && ... && runtime::owns_its_data<Arguments>)) {
    if (queues_launches()) {
      return launch_on_holders(
          name, first, std::move(tensors),
          [launched, code = std::decay_t<const Kernel>(kernel),
           copies = std::tuple<runtime::CopyOf<Arguments>...>(arguments...)](tl::Context& tl) {
            std::apply(
                [&](const auto&... own) {
                  code(tl, runtime::kernel_argument(own, tl.location(), *launched)...);
                },
                copies);
          },
          true);
    }
  }
  launch_on_holders(
      name, first, std::move(tensors),
      [&](tl::Context& tl) {
        kernel(tl, runtime::kernel_argument(arguments, tl.location(), *launched)...);
      },
      false);
}

}  // namespace kernbench
