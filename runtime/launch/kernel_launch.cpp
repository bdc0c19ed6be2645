#include "runtime/launch/kernel_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "runtime/launch/queue_residue.h"
#include "runtime/launch/queued_launch.h"
#include "runtime/launch/write_notes.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/data_under_way.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/exception_text.h"
#include "sim_engine/components/kernel_run.h"
#include "sim_engine/components/launcher.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/trace/trace_recorder.h"

namespace kernbench::runtime {

namespace {

// Once a kernel fails, its launch ends: the other kernels are unwound, their commands under way
// run to the end, and the completion returns to the host as usual.
class KernelLaunch {
 public:
  KernelLaunch(Simulation& simulation, LaunchRequest request)
      : simulation_(simulation), request_(std::move(request)), kernels_(request_.pes.size()) {
    for (const Tensor& tensor : request_.uses) tensor.storage()->begin_use();
  }
  ~KernelLaunch() { end_uses(); }
  KernelLaunch(const KernelLaunch&) = delete;
  KernelLaunch& operator=(const KernelLaunch&) = delete;

  // Returns the first exception of a kernel; nullptr if none threw.
  std::exception_ptr run();
  const sim::MessageBalance& message_balance() const { return balance_; }

 private:
  struct Kernel {
    KernelLaunch* launch = nullptr;
    std::size_t index = 0;
    FiberLocal local;
    Fiber* fiber = nullptr;  // while its code runs
    FiberScheduler* fibers = nullptr;
    std::optional<tl::Context> tl;  // outlives the code: commands under way refer to it
    bool is_cut_short = false;

    void wake();
    sim::Event wake_event() { return sim::Engine::call<&Kernel::wake>(this); }
  };

  // The PEs of one SIP: the host launches on each SIP separately.
  struct OnSip {
    KernelLaunch* launch = nullptr;
    std::size_t first = 0;  // index of its first kernel
    std::size_t count = 0;
    sim::Launcher::Launch* under_way = nullptr;
    std::size_t began = 0;  // number of its kernels that have begun
    RunLog::Id span = RunLog::kNone;

    void start(std::uint64_t index) { launch->start(first + index); }
    void done(std::uint64_t);
  };

  void launch_on_sips();
  void kernel_finished(const Kernel& kernel);
  OnSip& find_sip(const Kernel& kernel);
  void log_launch(OnSip& sip);
  void log_begin(const Kernel& kernel);
  void log_end(const Kernel& kernel);
  sim::ProcessingElement& pe_of(const Kernel& kernel) {
    return simulation_.machine().pe(kernel.local.pe);
  }
  void start(std::size_t index);
  void leave_pe(const Kernel& kernel);
  void begin(std::uint64_t index);
  void body(Kernel& kernel);
  void finished(const Kernel& kernel, Time started);
  void ended(Kernel& kernel, const FiberResult& result);
  void fail(const Kernel& kernel, const std::exception_ptr& exception);
  void settle(Kernel& kernel);
  void drop_messages();
  void check_queues();
  void end_uses();
  void log(std::string_view what);

  Simulation& simulation_;
  LaunchRequest request_;
  CommandBudget unlimited_{0};
  std::vector<Kernel> kernels_;
  std::vector<OnSip> sips_;
  sim::Sharers sharers_;  // of a user's kernels
  std::size_t sips_under_way_ = 0;
  Completion done_{simulation_};
  sim::MessageBalance balance_;
  std::exception_ptr failure_;
};

std::exception_ptr KernelLaunch::run() {
  // A queued launch and a collective have their number already, from when they were issued; other
  // launches take the next.
  if (request_.write == 0) request_.write = simulation_.local().write;
  if (request_.write == 0) request_.write = simulation_.next_write();
  const WriteNotes writes(request_.uses, request_.write);
  // The budget finds kernels that never end, so each launch begins with a full one.
  simulation_.command_budget().refill();
  simulation_.watchdog().start();
  if (!request_.is_collective) simulation_.local().last_call.set("launch");
  log("begins");
  launch_on_sips();
  simulation_.wait(done_, [&] {
    const std::string sips = sips_.size() == 1 ? fmt::format("sip{}", request_.pes.front().sip)
                                               : fmt::format("{} SIPs", sips_.size());
    return fmt::format("kernel '{}' on {} PEs of {}", request_.name, request_.pes.size(), sips);
  });
  // A failed launch leaves messages for certain, and its own error is the better one.
  failure_ == nullptr ? check_queues() : drop_messages();
  writes.end();
  end_uses();
  log(failure_ == nullptr ? "ends" : "has failed");
  return failure_;
}

void KernelLaunch::log(std::string_view what) {
  simulation_.log(LogTopic::launch, [&] {
    return fmt::format("kernel '{}' on {} PEs {}", request_.name, request_.pes.size(), what);
  });
}

void KernelLaunch::launch_on_sips() {
  if (!request_.is_collective) {
    sharers_ = sim::Routing::count_sharers(simulation_.topology(), request_.pes);
  }
  for (std::size_t i = 0; i < request_.pes.size(); ++i) {
    if (i == 0 || request_.pes[i].sip != request_.pes[i - 1].sip) sips_.push_back({this, i});
    ++sips_.back().count;
  }
  sips_under_way_ = sips_.size();
  sim::Launcher& launcher = simulation_.machine().launcher();
  const auto launch =
      // A stream on the device starts its next kernel itself, without the way from the host.
      simulation_.local().is_on_device ? &sim::Launcher::launch_at_io_cpu : &sim::Launcher::launch;
  for (OnSip& sip : sips_) {
    log_launch(sip);
    sip.under_way = &(launcher.*launch)(std::span(request_.pes).subspan(sip.first, sip.count),
                                        sim::Engine::call<&OnSip::start>(&sip),
                                        sim::Engine::call<&OnSip::done>(&sip));
  }
}

void KernelLaunch::OnSip::done(std::uint64_t) {
  Simulation& simulation = launch->simulation_;
  if (RunLog* const log = simulation.run_log()) {
    RunSpan& own = log->at(span);
    const bool is_at_host = !launch->request_.issued;  // else the news is still on its way there
    own.returned = simulation.now() +
                   (is_at_host ? Time{0} : simulation.machine().launcher().host_leg(own.device));
  }
  // The host goes on when the news of the last SIP has come.
  if (--launch->sips_under_way_ == 0) launch->done_.signal();
}

KernelLaunch::OnSip& KernelLaunch::find_sip(const Kernel& kernel) {
  return *std::ranges::find(sips_, kernel.local.pe.sip,
                            [&](const OnSip& on_sip) { return request_.pes[on_sip.first].sip; });
}

void KernelLaunch::log_launch(OnSip& sip) {
  RunLog* const log = simulation_.run_log();
  if (log == nullptr) return;
  const Time now = simulation_.now();
  sip.span = log->add(
      {.kind = request_.is_collective ? RunSpan::Kind::collective_kernel : RunSpan::Kind::kernel,
       .rank = request_.pes[sip.first].sip,
       .device = request_.pes[sip.first].sip,
       .name = request_.name,
       .where = request_.where,
       .module = request_.issued ? request_.module : log->module_of(simulation_.local().rank).path,
       .issued = request_.issued.value_or(now),
       .scope = request_.issued ? request_.scope : log->find_scope(simulation_.local().rank),
       .start = now,
       .taken_up = now,
       .pe_count = static_cast<int>(sip.count)});
}

// A kernel of the launch begins on a PE.
void KernelLaunch::log_begin(const Kernel& kernel) {
  OnSip& sip = find_sip(kernel);
  RunSpan& span = simulation_.run_log()->at(sip.span);
  span.last_start = simulation_.now();
  // PEs begin one after the other, as the launch reaches them.  The span begins with the first.
  if (sip.began++ == 0) span.start = span.last_start;
}

void KernelLaunch::log_end(const Kernel& kernel) {
  RunSpan& span = simulation_.run_log()->at(find_sip(kernel).span);
  span.end = simulation_.now();
  if (!kernel.tl) return;
  const auto& traffic = kernel.tl->run().traffic();
  span.bytes += traffic.loaded + traffic.stored;
  span.operations += traffic.operations;
}

void KernelLaunch::kernel_finished(const Kernel& kernel) {
  if (simulation_.run_log() != nullptr) log_end(kernel);
  const OnSip& sip = find_sip(kernel);
  simulation_.machine().launcher().kernel_finished(*sip.under_way, kernel.index - sip.first);
}

// Runs when the launch has reached a PE.
void KernelLaunch::start(std::size_t index) {
  Kernel& kernel = kernels_[index];
  kernel.launch = this;
  kernel.index = index;
  // The kernel's data are set before its fiber exists, because the PE is claimed by its place.
  kernel.local.kind = FiberLocal::Kind::kernel;
  kernel.local.kernel = request_.name;
  kernel.local.pe = request_.pes[index];
  kernel.local.device = kernel.local.pe.sip;
  if (request_.is_collective) return begin(index);  // beside whatever runs
  pe_of(kernel).claim(sim::Engine::call<&KernelLaunch::begin>(this, index));
}

// Runs when no part of the kernel is left on its PE, and frees the PE for the next one.
void KernelLaunch::leave_pe(const Kernel& kernel) {
  pe_of(kernel).kernel_ended();
  if (request_.is_collective) return;
  simulation_.activity().kernel_ended(kernel.local.pe.sip);
  pe_of(kernel).release();
}

// Runs when it is this kernel's turn on its PE.
void KernelLaunch::begin(std::uint64_t index) {
  Kernel& kernel = kernels_[index];
  pe_of(kernel).kernel_began();
  if (simulation_.run_log() != nullptr) log_begin(kernel);
  if (!request_.is_collective) simulation_.activity().kernel_began(kernel.local.pe.sip);
  // A kernel whose turn comes after another one's failure never runs its code, but its PE must be
  // released.
  if (failure_ != nullptr) return settle(kernel);
  kernel.fibers = &simulation_.fibers();
  kernel.fiber = &kernel.fibers->spawn(
      FiberName(write_name), [this, &kernel] { body(kernel); }, &kernel.local,
      [this, &kernel](Fiber&, const FiberResult& result) { ended(kernel, result); });
}

void KernelLaunch::body(Kernel& kernel) {
  sim::ProcessingElement& pe = pe_of(kernel);
  const Time started = simulation_.now();
  kernel.tl.emplace(simulation_.fibers(),
                    request_.has_end ? unlimited_ : simulation_.command_budget(), kernel.local, pe,
                    kernel.wake_event(), request_.name, static_cast<int>(kernel.index),
                    static_cast<int>(kernels_.size()),
                    sim::Operation{request_.operation, request_.is_collective, sharers_});
  if (!request_.guard.empty()) kernel.tl->guard_stores(request_.guard);
  if (request_.watch != nullptr) kernel.tl->watch_accesses(*request_.watch);
  simulation_.log(LogTopic::fiber, [] { return "begins"; });
  request_.body(*kernel.tl);
  kernel.tl->end();
  simulation_.log(LogTopic::fiber, [] { return "ends"; });
  finished(kernel, started);
}

// A wake-up may come after a kernel's code has ended, such as a credit that it no longer waits
// for.
void KernelLaunch::Kernel::wake() {
  if (fiber != nullptr) return fibers->wake(*fiber);
  if (is_cut_short) launch->settle(*this);
}

void KernelLaunch::finished(const Kernel& kernel, Time started) {
  const sim::PeLocation& pe = kernel.local.pe;
  const Time now = simulation_.now();
  const sim::KernelRun& run = kernel.tl->run();
  simulation_.add_result({request_.operation, pe, started, now, run.traffic().loaded,
                          run.traffic().stored, run.composite_window(), run.waits()});
  balance_ += kernel.tl->message_balance();
  leave_pe(kernel);
  kernel_finished(kernel);
  if (sim::TraceRecorder* trace = simulation_.machine().trace()) {
    trace->span(trace->track(pe.sip, fmt::format("cube{}.pe{}.cpu", pe.cube, pe.pe)),
                trace->label(request_.name), started, now);
  }
}

void KernelLaunch::ended(Kernel& kernel, const FiberResult& result) {
  kernel.fiber = nullptr;
  if (result.how == FiberResult::How::returned) return;
  // A message must not be copied into the tile of a receive whose kernel is gone.
  if (kernel.tl) kernel.tl->withdraw_receives();
  const bool is_first =
      result.how == FiberResult::How::threw && failure_ == nullptr && !simulation_.has_failed();
  if (is_first) fail(kernel, result.exception);
  if (failure_ != nullptr) settle(kernel);
  // Only the first failure cancels the other kernels; their ends come here too.
  for (Kernel& other : kernels_) {
    if (is_first && other.fiber != nullptr) simulation_.fibers().cancel(*other.fiber);
  }
}

void KernelLaunch::fail(const Kernel& kernel, const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error&) {
    failure_ = exception;
  } catch (const InternalError&) {
    failure_ = exception;
  } catch (const std::bad_alloc&) {  // of the host, not of the kernel
    failure_ = exception;
  } catch (const std::exception& error) {
    failure_ = std::make_exception_ptr(
        DeviceError("KB-K001", fmt::format("kernel '{}' on {} raised: {}", request_.name,
                                           to_string(kernel.local.pe), to_text(error))));
  } catch (...) {
    failure_ = std::make_exception_ptr(
        DeviceError("KB-K001", "kernel '{}' on {} raised what is no std::exception ({})",
                    request_.name, to_string(kernel.local.pe), type_of_current_exception()));
  }
}

// For the launch, a kernel that was cut short ends when its last command has ended.
void KernelLaunch::settle(Kernel& kernel) {
  kernel.is_cut_short = kernel.tl && kernel.tl->has_commands_under_way();
  if (kernel.is_cut_short) return kernel.tl->wake_when_idle();
  kernel.tl.reset();  // frees its scratch too
  leave_pe(kernel);
  kernel_finished(kernel);
}

// Drops messages that the kernels of a failed launch have sent each other: nobody will receive
// them.
void KernelLaunch::drop_messages() {
  for (const sim::PeLocation& pe : request_.pes) {
    // Messages from PEs outside the launch stay: their receivers may still come.
    for (sim::IpcqChannel* channel : simulation_.machine().pe(pe).ipcq().ins()) {
      if (!std::ranges::binary_search(request_.pes, channel->ends().from)) continue;
      while (channel->message_count() > 0) {
        channel->pop();
        channel->release_slot();
      }
    }
  }
}

// Nobody else receives messages that are left inside a SIP; between SIPs another launch may.
void KernelLaunch::check_queues() {
  // The balance is a sum of counters, so that the queues are searched only after a fault.
  if (balance_.in_sip == 0) return;
  const auto residue = take_residue(simulation_.machine(), QueueScope::in_one_sip,
                                    sim::Operation{request_.operation, request_.is_collective},
                                    fmt::format("kernel '{}'", request_.name));
  if (residue) failure_ = std::make_exception_ptr(*residue);
}

void KernelLaunch::end_uses() {
  for (const Tensor& tensor : std::exchange(request_.uses, {})) tensor.storage()->end_use();
}

}  // namespace

std::int64_t launch(Simulation& simulation, LaunchRequest request, When when) {
  if (when == When::after_streams) return launch_after_streams(simulation, std::move(request));
  if (when == When::queued) {
    enqueue_launch(simulation, std::move(request));
    return 0;
  }
  // Kernels outlive the caller when the run is cut short, so the simulation keeps the launch.  It
  // keeps a failed one for good: something may still be about to wake its kernels.
  const auto kernels = std::make_shared<KernelLaunch>(simulation, std::move(request));
  simulation.keep(kernels);
  if (const std::exception_ptr failure = kernels->run()) std::rethrow_exception(failure);
  simulation.release(kernels.get());
  return kernels->message_balance().between_sips;
}

}  // namespace kernbench::runtime
