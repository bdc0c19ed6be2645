#include "runtime/torch/runtime_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "runtime/distributed/collective.h"
#include "runtime/guards/run_limits.h"
#include "runtime/launch/kernel_launch.h"
#include "runtime/profiler/energy.h"
#include "runtime/profiler/profile.h"
#include "runtime/profiler/trace.h"
#include "runtime/profiler/written_file.h"
#include "runtime/simulation/gate.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/environment.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"
#include "sim_engine/components/processing_element.h"

namespace kernbench {

Time EngineView::now() const {
  return simulation_->now();
}

const runtime::Simulation& EngineView::settled() const {
  runtime::synchronize(*simulation_);
  return *simulation_;
}

runtime::DeviceActivity EngineView::activity(int device) const {
  return settled().activity().of(device);
}

const std::vector<runtime::AlgorithmUse>& EngineView::algorithms_used() const {
  return settled().algorithms_used();
}

sim::UnitUse EngineView::busiest_unit() const {
  return settled().machine().busiest_unit();
}

const std::vector<runtime::KernelResult>& EngineView::results() const {
  return settled().results();
}

const std::vector<runtime::KernelResult>& EngineView::last_results() const {
  return settled().last_results();
}

runtime::EnergyUse EngineView::energy() const {
  return runtime::measure_energy(settled());
}

runtime::Profile EngineView::profile() const {
  return runtime::make_profile(settled());
}

std::string EngineView::explain() const {
  return runtime::explain(profile());
}

void EngineView::write_trace(const std::string& path, runtime::TraceLevel level) const {
  if (simulation_->run_log() == nullptr && simulation_->machine().trace() == nullptr) {
    throw CollectiveError("KB-R030",
                          "write_trace: the run records nothing; set RuntimeOptions::profile, or "
                          "make a profiler::profile before what the trace is to show");
  }
  runtime::write_file(path, runtime::trace_json(settled(), level));
}

const sim::CommandLog& EngineView::op_log() const {
  return settled().machine().op_log();
}

std::uint64_t EngineView::event_count() const {
  return settled().machine().engine().event_count();
}

std::uint64_t EngineView::fingerprint() const {
  return settled().machine().engine().fingerprint();
}

Time EngineView::critical_pe_exec() const {
  Time longest{0};
  for (const runtime::KernelResult& result : last_results()) {
    longest = std::max(longest, result.end - result.start);
  }
  return longest;
}

Time EngineView::composite_window() const {
  Time longest{0};
  for (const runtime::KernelResult& result : last_results()) {
    longest = std::max(longest, result.composite_window);
  }
  return longest;
}

Bytes EngineView::hbm_bytes_loaded() const {
  Bytes bytes = 0;
  for (const runtime::KernelResult& result : last_results()) bytes += result.loaded;
  return bytes;
}

Bytes EngineView::hbm_bytes_stored() const {
  Bytes bytes = 0;
  for (const runtime::KernelResult& result : last_results()) bytes += result.stored;
  return bytes;
}

sim::Waits EngineView::longest_waits() const {
  sim::Waits longest;
  for (const runtime::KernelResult& result : last_results()) {
    for (const sim::WaitCause cause : sim::kWaitCauses) {
      longest[cause] = std::max(longest[cause], result.waits[cause]);
    }
  }
  return longest;
}

sim::Waits EngineView::waits(const sim::PeLocation& pe) const {
  return simulation_->machine().pe(pe).waits();
}

namespace {

RuntimeOptions checked(RuntimeOptions options) {
  const auto check = [](std::string_view name, std::int64_t value) {
    if (value >= 0) return;
    throw CollectiveError("KB-R018", "RuntimeOptions::{} is {}; it must not be negative", name,
                          value);
  };
  check("evaluation_threads", options.evaluation_threads);
  check("command_limit", options.command_limit);
  check("kernel_time_limit", options.kernel_time_limit.count());
  check("rank_notice_time", options.rank_notice_time.count());
  check("rank_time_limit", options.rank_time_limit.value_or(std::chrono::milliseconds{0}).count());
  if (!options.reproducible) {
    options.reproducible = distributed::least_reproducible_by_environment();
  }
  return options;
}

}  // namespace

// KERNBENCH_LAUNCH_BLOCKING is read as CUDA_LAUNCH_BLOCKING is.
std::optional<bool> launches_block_by_environment() {
  return find_switch("KERNBENCH_LAUNCH_BLOCKING");
}

namespace {

struct ContextOfSimulation final : runtime::Attachment {
  void forget_ranks() override {}

  RuntimeContext* torch = nullptr;
};

}  // namespace

RuntimeContext& runtime::context_of(Simulation& simulation) {
  RuntimeContext* const torch = simulation.attachments().get<ContextOfSimulation>().torch;
  check_lives(simulation, "the call", [] { return std::string("its tensor or module"); });
  KB_CHECK(torch != nullptr, "a simulation without a context");
  return *torch;
}

const std::shared_ptr<runtime::Simulation>& shared_simulation_of(const RuntimeContext& torch) {
  return torch.simulation_;
}

runtime::Simulation& simulation_of(const RuntimeContext& torch) {
  return *shared_simulation_of(torch);
}

namespace {

// Returns the period of ranks that are alike; 0: each is simulated.
int find_period(const Topology& topology, const RuntimeOptions& options) {
  const bool is_plain = !options.data && !options.trace && !options.profile &&
                        !options.energy.value_or(false) && !options.shuffle_ties &&
                        options.choices == nullptr;
  const bool folds = options.fold > 0 && is_plain && topology.system.sip_count > options.fold;
  return folds && sim::Folding::find_obstacle(topology, options.fold).empty() ? options.fold : 0;
}

}  // namespace

RuntimeContext::RuntimeContext(const Topology& topology, RuntimeOptions options)
    : options_(checked(std::move(options))),
      simulation_(std::make_shared<runtime::Simulation>(
          topology,
          sim::MachineOptions{.data = options_.data,
                              .trace = options_.trace,
                              .profile = options_.profile || options_.trace,
                              .energy = options_.energy.value_or(false),
                              .op_log_limit = options_.op_log_limit,
                              .shuffle_ties = options_.shuffle_ties,
                              .fold = find_period(topology, options_),
                              .fixed_tiles = options_.reproducible == Reproducible::pairs},
          options_.evaluation_threads,
          runtime::RunLimits{options_.command_limit, options_.kernel_time_limit,
                             options_.rank_notice_time,
                             options_.rank_time_limit.value_or(runtime::RunLimits{}.rank_time)},
          options_.choices)) {
  const std::optional<bool> blocking =
      options_.launch_blocking ? options_.launch_blocking : launches_block_by_environment();
  simulation_->set_queues_launches(!blocking.value_or(topology.launch.blocking));
  simulation_->attachments().get<ContextOfSimulation>().torch = this;
}

namespace {

// Ends the process: a destructor cannot throw, and the run cannot continue, since the caller's
// stack is part of what would be destroyed.
[[noreturn]] void die_of_destruction_inside(const runtime::Fiber& fiber) {
  std::fflush(stdout);
  fmt::print(stderr,
             "kernbench: error: [KB-R017] {} destroys the context that it is part of\n"
             "  destroy it where it was made, when the ranks have returned\n",
             fiber.name());
  end_process(static_cast<int>(ExitCode::collective_misuse));
}

// Runs everything that the driver has queued to its end.  If it fails, nobody is left whom that
// could be thrown to: the process ends with the error's exit code.
void end_what_is_queued(runtime::Simulation& simulation) {
  try {
    runtime::synchronize(simulation);
  } catch (const Error& error) {
    std::fflush(stdout);
    fmt::print(stderr, "kernbench: error: {}\n  nobody waited for it before the context ended\n",
               error.what());
    end_process(static_cast<int>(error.exit_code()));
  }
}

}  // namespace

// Tensors may outlive the context; fibers may not.
RuntimeContext::~RuntimeContext() {
  if (const runtime::Fiber* fiber = simulation_->fibers().current()) {
    die_of_destruction_inside(*fiber);
  }
  multiprocessing.report_unfinished();
  if (std::uncaught_exceptions() == 0) end_what_is_queued(*simulation_);
  simulation_->abandon();
  multiprocessing.context_ends();
  simulation_->attachments().clear();  // they may refer to groups
}

const Topology& RuntimeContext::topology() const {
  return simulation_->topology();
}

Tensor RuntimeContext::make(const Shape& shape, const TensorOptions& options) const {
  TensorOptions named = options;
  if (named.name.empty()) named.name = fmt::format("tensor{}", tensor_count_);
  named.dtype = options.dtype.value_or(get_default_dtype());
  ++tensor_count_;
  Tensor made(runtime::make_device_storage(simulation_, ahbm.current_device(), shape, named));
  runtime::mark_as_made_by_user(made);
  return made;
}

void runtime::check_fits(std::string_view function, const Scalar& number, DType dtype) {
  const double value = is_integral(dtype) ? std::trunc(number.real()) : number.real();
  if (dtype == DType::boolean || (dtype == DType::i64 && is_integral(number.type()))) return;
  const bool has_least = dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32;
  const double least = -largest_of(dtype) - (has_least ? 1 : 0);
  if (!std::isfinite(value) || (least <= value && value <= largest_of(dtype))) return;
  throw DeviceError("KB-M021",
                    "{}: value cannot be converted to type {} without overflow: {}; the largest "
                    "is {}, or give an infinity",
                    function, torch_name_of(dtype), value, largest_of(dtype));
}

void RuntimeContext::set_default_dtype(DType dtype) {
  if (is_integral(dtype) || is_float8(dtype)) {
    throw DeviceError("KB-F002",
                      "only floating-point types are supported as the default type, not {}: give "
                      "f32, f16 or bf16",
                      name_of(dtype));
  }
  runtime::FiberLocal& caller = simulation_->local();
  const bool is_driver = caller.kind == runtime::FiberLocal::Kind::unbound;
  (is_driver ? default_dtype_ : caller.default_dtype.emplace()) = dtype;
}

DType RuntimeContext::get_default_dtype() const {
  return simulation_->local().default_dtype.value_or(default_dtype_);
}

Tensor RuntimeContext::full(const Shape& shape, const Scalar& value,
                            const TensorOptions& options) const {
  Tensor tensor = make(shape, options);
  runtime::check_fits("full", value, tensor.dtype());
  runtime::fill(*tensor.storage(), value);
  return tensor;
}

Tensor RuntimeContext::zeros(const Shape& shape, const TensorOptions& options) const {
  return full(shape, 0, options);
}

Tensor RuntimeContext::ones(const Shape& shape, const TensorOptions& options) const {
  return full(shape, 1, options);
}

Tensor RuntimeContext::empty(const Shape& shape, const TensorOptions& options) const {
  return make(shape, options);
}

void RuntimeContext::check_count(std::size_t elements, const Shape& shape) {
  if (static_cast<std::int64_t>(elements) == shape.numel()) return;
  throw DeviceError("KB-M015", "shape {} is invalid for input of size {}", to_string(shape),
                    elements);
}

Tensor RuntimeContext::tensor(std::span<const float> elements, const Shape& shape) {
  check_count(elements.size(), shape);
  return Tensor(
      runtime::make_host_storage(shape, std::vector<float>(elements.begin(), elements.end())));
}

Tensor RuntimeContext::tensor(std::span<const std::int64_t> elements, const Shape& shape) {
  return of_integers({elements.begin(), elements.end()}, shape, DType::i64);
}

Tensor RuntimeContext::of_integers(std::vector<std::int64_t> elements, const Shape& shape,
                                   DType dtype) {
  check_count(elements.size(), shape);
  return Tensor(runtime::make_host_storage(shape, std::move(elements), dtype));
}

void RuntimeContext::check_on_device(const Tensor& tensor, std::string_view user) const {
  runtime::check_on_device(tensor, *simulation_, user);
}

tl::Pointer RuntimeContext::pointer_to(const Tensor& tensor, const sim::PeLocation& pe) {
  if (!tensor.defined() || tensor.is_host()) runtime::check_on_device(tensor, "pointer_to");
  runtime::check_is_contiguous(tensor, "pointer_to");
  const Tensor::Storage& storage = *tensor.storage();
  for (const sim::DeviceBuffer& buffer : storage.buffers()) {
    if (buffer.home == pe) return {buffer, storage.name, *storage.memory};
  }
  return {};
}

bool RuntimeContext::queues_launches() const {
  return simulation_->queues_launches();
}

void RuntimeContext::launch_on_holders(const runtime::LaunchName& name, const Tensor& first,
                                       std::vector<Tensor> uses,
                                       std::function<void(tl::Context&)> body, bool body_owns) {
  for (const Tensor& tensor : uses) {
    const std::string user = fmt::format("launch of '{}'", name.name);
    check_on_device(tensor, user);
    runtime::check_is_contiguous(tensor, user);
  }
  runtime::launch(name, first, std::move(uses), std::move(body),
                  {.lifetime = body_owns ? runtime::Body::owns : runtime::Body::borrows});
}

}  // namespace kernbench
