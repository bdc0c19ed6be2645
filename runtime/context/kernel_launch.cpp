#include "runtime/context/kernel_launch.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

class KernelLaunch {
 public:
  KernelLaunch(Simulation& simulation, LaunchRequest request)
      : simulation_(simulation), request_(std::move(request)), kernels_(request_.pes.size()) {
    for (const Tensor& tensor : request_.uses) tensor.storage()->begin_use();
  }
  ~KernelLaunch() {
    for (const Tensor& tensor : request_.uses) tensor.storage()->end_use();
  }

  void run();

 private:
  struct Kernel {
    KernelLaunch* launch = nullptr;
    FiberLocal local;
    Fiber* fiber = nullptr;

    void wake() { launch->simulation_.fibers().wake(*fiber); }
  };

  void start(std::uint64_t index);
  void body(std::size_t index);
  void finished(std::size_t index, Time started);
  void ended(const FiberResult& result, const Kernel& kernel);

  Simulation& simulation_;
  LaunchRequest request_;
  std::vector<Kernel> kernels_;
  sim::Launcher::Launch* launch_ = nullptr;
  Completion done_{simulation_};
  std::exception_ptr failure_;
};

void KernelLaunch::run() {
  launch_ = &simulation_.machine().launcher().launch(
      request_.pes, sim::Engine::call<&KernelLaunch::start>(this), signal_event(done_));
  simulation_.wait(done_, [&] {
    return fmt::format("kernel '{}' on {} PEs of sip{}", request_.name, request_.pes.size(),
                       request_.pes.front().sip);
  });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

// The launch has reached a PE.
void KernelLaunch::start(std::uint64_t index) {
  Kernel& kernel = kernels_[index];
  kernel.launch = this;
  kernel.local.kind = FiberLocal::Kind::kernel;
  kernel.local.kernel = request_.name;
  kernel.local.pe = request_.pes[index];
  kernel.local.device = kernel.local.pe.sip;
  kernel.fiber = &simulation_.fibers().spawn(
      FiberName(write_name), [this, index] { body(index); }, &kernel.local,
      [this, &kernel](Fiber&, FiberResult result) { ended(result, kernel); });
}

void KernelLaunch::body(std::size_t index) {
  Kernel& kernel = kernels_[index];
  sim::ProcessingElement& pe = simulation_.machine().pe(kernel.local.pe);
  const Time started = simulation_.now();
  tl::Context tl(simulation_.fibers(), kernel.local, pe, sim::Engine::call<&Kernel::wake>(&kernel),
                 request_.name, static_cast<int>(index), static_cast<int>(kernels_.size()));
  try {
    request_.body(tl);
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    tl.drain();  // commands under way refer to the kernel
    throw;
  }
  tl.drain();
  finished(index, started);
}

void KernelLaunch::finished(std::size_t index, Time started) {
  const sim::PeLocation& pe = request_.pes[index];
  const Time now = simulation_.now();
  simulation_.add_result({request_.operation, pe, started, now});
  simulation_.machine().launcher().kernel_finished(*launch_, index);
  if (sim::TraceRecorder* trace = simulation_.machine().trace()) {
    trace->span_in_lane(pe.sip, fmt::format("cube{}.pe{}.cpu", pe.cube, pe.pe),
                        trace->label(request_.name), started, now);
  }
}

// The first kernel that fails ends the wait of whoever launched it.
void KernelLaunch::ended(const FiberResult& result, const Kernel& kernel) {
  if (result.how != FiberResult::How::threw || failure_ != nullptr) return;
  try {
    std::rethrow_exception(result.exception);
  } catch (const Error&) {
    failure_ = result.exception;
  } catch (const InternalError&) {
    failure_ = result.exception;
  } catch (const std::exception& error) {
    failure_ = std::make_exception_ptr(
        DeviceError("KB-K001", fmt::format("kernel '{}' on {} raised: {}", request_.name,
                                           to_string(kernel.local.pe), error.what())));
  } catch (...) {
    failure_ = std::make_exception_ptr(
        DeviceError("KB-K001", fmt::format("kernel '{}' on {} raised what is no std::exception",
                                           request_.name, to_string(kernel.local.pe))));
  }
  done_.signal();
}

}  // namespace

void run_kernel(Simulation& simulation, LaunchRequest request) {
  // Kernels outlive the caller when the run is cut short, so the simulation keeps the launch.
  const auto launch = std::make_shared<KernelLaunch>(simulation, std::move(request));
  simulation.keep(launch);
  launch->run();
  simulation.release(launch.get());
}

}  // namespace kernbench::runtime
