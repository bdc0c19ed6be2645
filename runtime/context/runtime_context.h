// The object that users call `torch`.

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/context/algorithm_use.h"
#include "runtime/context/device_activity.h"
#include "runtime/context/device_namespaces.h"
#include "runtime/context/kernel_result.h"
#include "runtime/context/launch_name.h"
#include "runtime/context/launched_tensors.h"
#include "runtime/context/run_limits.h"
#include "runtime/distributed/distributed.h"
#include "runtime/distributed/objects.h"
#include "runtime/multiprocessing/spawn.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tl/tl.h"
#include "sim_engine/base/duration.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/unit_use.h"
#include "sim_engine/data/op_log.h"
#include "sim_engine/topology/topology.h"

namespace kernbench {

namespace distributed {
class BackendConfig;
}
namespace runtime {
class Attachments;
class Simulation;
}  // namespace runtime

struct RuntimeOptions {
  // ccl.yaml, as ccl::Config; null: the built-in defaults.
  std::shared_ptr<const distributed::BackendConfig> ccl = nullptr;
  bool data = true;    // compute values too; without, runs are faster and have only times
  bool trace = false;  // record spans for Perfetto
  // Operations that the op log keeps, the last ones (40 bytes each), so that long runs do not fill
  // the host's memory; 0: all.
  std::size_t op_log_limit = std::size_t{1} << 20;
  // Threads that a host read may compute on, the caller's among them; 0: as many as there are
  // cores.  The values do not depend on it.
  int replay_threads = 0;
  // Commands that kernels may issue before they are held to be endless (DeadlockError KB-D002):
  // each 50,000, and those that run at the same time this many more together; 0: any number.
  std::int64_t command_limit = runtime::RunLimits{}.commands;
  // How long a kernel may run, in time of the host, without waiting for anything; then the process
  // ends with KB-D003 and exit code 20.  0: for ever.
  std::chrono::milliseconds kernel_time_limit = runtime::RunLimits{}.kernel_time;
  // How long a rank may run, in time of the host, without waiting for anything or returning, before
  // it is named on standard error with its last call (KB-D004), and again each time that it has run
  // for twice as long.  0: never.
  std::chrono::milliseconds rank_notice_time = runtime::RunLimits{}.rank_notice;
  // For how long before the process ends with KB-D004 and exit code 20.  0: for ever.  Without one
  // for ever too, since a rank is the host's program and may compute for as long as it likes; but
  // 60 s in a testing::World, where nobody waits for that.
  std::optional<std::chrono::milliseconds> rank_time_limit = std::nullopt;
};

// What came out of a run: torch.engine().
class EngineView {
 public:
  explicit EngineView(const runtime::Simulation& simulation) : simulation_(&simulation) {}

  double now_ns() const { return to_ns(now()); }
  Time now() const;

  // Execution time of the slowest PE in the launch or collective that began last: from the kernel's
  // start on that PE to its end there.  0 if it ran on none.
  double critical_pe_exec_ns() const { return to_ns(critical_pe_exec()); }
  Time critical_pe_exec() const;

  // In the same: the longest time on a PE from the start of its first tl.composite to the end of
  // its last; 0 if there was none.
  double composite_window_ns() const { return to_ns(composite_window()); }
  Time composite_window() const;

  // In the same: bytes that tl.load, tl.store and tl.composite have moved from and to HBM, on all
  // PEs.
  Bytes hbm_bytes_loaded() const;
  Bytes hbm_bytes_stored() const;

  // For how long kernels ran on a device, collectives of its rank, and both: from the beginning on.
  // What happened meanwhile is the difference of two of them.
  runtime::DeviceActivity activity(int device) const;

  // By which algorithms collectives have run, in the order of their first calls; none on a backend
  // without a device.
  const std::vector<runtime::AlgorithmUse>& algorithms_used() const;

  // The unit that has served kernels for longest: the bottleneck, for a share() of the time in
  // which kernels ran (sim::Machine::busiest_unit()).
  sim::UnitUse busiest_unit() const;

  // One entry per kernel and PE, in the order of their ends: of the last 65,536 at least, and of
  // no more than twice as many, so that long runs do not fill the host's memory.
  const std::vector<runtime::KernelResult>& results() const;
  // Those of the launch or collective that began last.
  const std::vector<runtime::KernelResult>& last_results() const;
  // What has finished on the device, in that order: of the last ones
  // (RuntimeOptions::op_log_limit).
  const sim::OpLog& op_log() const;
  std::uint64_t event_count() const;

  // Equal for equal runs, in every build.
  std::uint64_t fingerprint() const;

 private:
  const runtime::Simulation* simulation_;
};

// One simulated system and the host program's view of it.  Not shared between threads; two contexts
// in two threads do not know of each other.
class RuntimeContext {
 public:
  // Throws ConfigError if the topology cannot be built, CollectiveError KB-R018 for an option that
  // is negative.
  explicit RuntimeContext(const Topology& topology, RuntimeOptions options = {});
  ~RuntimeContext();
  RuntimeContext(const RuntimeContext&) = delete;
  RuntimeContext& operator=(const RuntimeContext&) = delete;

  const Topology& topology() const;
  const RuntimeOptions& options() const { return options_; }
  EngineView engine() const { return EngineView(*simulation_); }

  // Tensors on the caller's device (torch.ahbm.set_device).  Their contents are there at once:
  // memory is set before the clock matters.  DeviceError KB-M010 if they do not fit, KB-M021 if the
  // value is finite and too large for the type.
  Tensor zeros(const Shape& shape, const TensorOptions& options = {}) const;
  Tensor ones(const Shape& shape, const TensorOptions& options = {}) const;
  Tensor full(const Shape& shape, double value, const TensorOptions& options = {}) const;
  // Reads as NaN until it is written.
  Tensor empty(const Shape& shape, const TensorOptions& options = {}) const;

  // Host tensors, to copy_ from.  The elements are copied, row by row.
  // Throws DeviceError KB-M015 if their number is not the shape's.
  static Tensor from_blob(const float* elements, const Shape& shape);
  static Tensor tensor(std::span<const float> elements, const Shape& shape);
  static Tensor tensor(std::initializer_list<float> elements, const Shape& shape) {
    return tensor(std::span(elements.begin(), elements.size()), shape);
  }
  // Any matrix expression of Eigen.
  template <class Matrix>
  static Tensor from_eigen(const Matrix& matrix);

  // Runs kernel(tl, arguments...) on every PE that holds a part of the first tensor, and waits
  // until all have finished.  A Tensor, or what is derived from it (a layer's parameter), arrives
  // as tl::Pointer to that PE's shard; anything else as it is.  What a kernel throws is thrown
  // here: an Error unchanged, else DeviceError KB-K001.  CollectiveError KB-G003 for a tensor that
  // an operation issued and not waited for is to write, or reads and the kernel stores into.
  template <class Kernel, class... Arguments>
  void launch(const runtime::LaunchName& name, const Kernel& kernel, const Arguments&... arguments);

  // Throws DeviceError unless the tensor lies on a device of this context: KB-M001 undefined,
  // KB-M019 on the host, KB-M013 of another context.  `user` is what wants to use it.
  void check_on_device(const Tensor& tensor, std::string_view user) const;

  // Pointer to a PE's shard of a tensor, for kernels that do not have it as an argument; to nothing
  // if the PE holds none.  Their loads and stores are refused as a launch is (KB-G003).
  static tl::Pointer pointer_to(const Tensor& tensor, const sim::PeLocation& pe);

  // For what is built on the runtime: backends and their tests.
  runtime::Simulation& simulation() { return *simulation_; }
  const runtime::Simulation& simulation() const { return *simulation_; }
  const std::shared_ptr<runtime::Simulation>& shared_simulation() const { return simulation_; }
  runtime::Attachments& attachments() { return *attachments_; }

 private:
  Tensor make(const Shape& shape, const TensorOptions& options) const;
  void launch_on_holders(const runtime::LaunchName& name, const Tensor& first,
                         std::vector<Tensor> uses, std::function<void(tl::Context&)> body);

  const RuntimeOptions options_;
  const std::shared_ptr<runtime::Simulation> simulation_;
  mutable std::uint64_t tensor_count_ = 0;  // for names

 public:
  AhbmNamespace ahbm{*simulation_};
  AcceleratorNamespace accelerator{ahbm};
  distributed::DistributedContext distributed{*this};
  multiprocessing::Multiprocessing multiprocessing{*this};

 private:
  const std::unique_ptr<runtime::Attachments> attachments_;  // last: they may refer to groups
};

template <class Matrix>
Tensor RuntimeContext::from_eigen(const Matrix& matrix) {
  std::vector<float> elements;
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    for (std::int64_t column = 0; column < matrix.cols(); ++column) {
      elements.push_back(static_cast<float>(matrix(row, column)));
    }
  }
  return tensor(elements, {matrix.rows(), matrix.cols()});
}

namespace runtime {

// How an argument of launch() arrives in the kernel.
tl::Pointer kernel_argument(const Tensor& tensor, const sim::PeLocation& pe,
                            const LaunchedTensors& launched);
template <class Value>
requires(!std::derived_from<Value, Tensor>) const Value& kernel_argument(const Value& value,
                                                                         const sim::PeLocation&,
                                                                         const LaunchedTensors&) {
  return value;
}

inline void collect_tensor(std::vector<Tensor>& tensors, const Tensor& tensor) {
  tensors.push_back(tensor);
}
template <class Value>
requires(!std::derived_from<Value, Tensor>) void collect_tensor(std::vector<Tensor>&,
                                                                const Value&) {}

}  // namespace runtime

template <class Kernel, class... Arguments>
void RuntimeContext::launch(const runtime::LaunchName& name, const Kernel& kernel,
                            const Arguments&... arguments) {
  runtime::LaunchedTensors launched;
  (runtime::collect_tensor(launched.tensors, arguments), ...);
  static_assert((std::derived_from<Arguments, Tensor> || ...), "launch() needs a tensor");
  launch_on_holders(name, launched.tensors.front(), launched.tensors, [&](tl::Context& tl) {
    kernel(tl, runtime::kernel_argument(arguments, tl.location(), launched)...);
  });
}

}  // namespace kernbench
