// A program that touches every unit, driven without fibers: two PEs of SIP 0 are launched, load a
// shard each, send it to each other several times, add what they receive, and store the sums.

#pragma once

#include <deque>
#include <optional>

#include "sim_engine/components/kernel_run.h"
#include "sim_engine/components/launcher.h"
#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim {

class ExchangeProgram {
 public:
  // REQUIRES: it outlives its run, or the machine's work is abandoned after it
  explicit ExchangeProgram(Machine& machine, int message_count = 6)
      : machine_(machine), message_count_(message_count) {}

  void launch() {
    started_ = machine_.engine().now();
    const std::vector<PeLocation> pes{kPe0, kPe1};
    for (const PeLocation& at : pes) kernels_.emplace_back(this, at, kernels_.size());
    launch_ = &machine_.launcher().launch(pes, Engine::call<&ExchangeProgram::start>(this),
                                          Engine::call<&ExchangeProgram::end>(this));
  }
  bool is_done() const { return done_; }
  Time duration() const { return ended_ - started_; }

  // Before the first launch on a machine.
  static void connect(Machine& machine) {
    machine.connect({kPe0, Direction::east, kPe1, Direction::west}, {.depth = 2});
    machine.connect({kPe1, Direction::west, kPe0, Direction::east}, {.depth = 2});
  }

 private:
  static constexpr std::int64_t kElements = 250;

  struct Kernel {
    ExchangeProgram* program;
    PeLocation at;
    std::size_t index;
    std::optional<KernelRun> run;
    DeviceBuffer buffer;
    Tile own;
    std::optional<KernelRun::PostedReceive> posted;
    int sent = 0;
    int received = 0;
    bool finished = false;

    Kernel(ExchangeProgram* of, const PeLocation& pe, std::size_t number)
        : program(of), at(pe), index(number) {}

    void begin() {
      MemoryStore& memory = program->machine_.memory();
      buffer = {memory.create_region(DType::f32, kElements), at, 0, DType::f32, kElements};
      run.emplace(program->machine_.pe(at), Engine::call<&Kernel::proceed>(this));
      own = run->load(buffer, 0, kElements);
      proceed();
    }
    void proceed() {
      const Direction to = at == kPe0 ? Direction::east : Direction::west;
      IpcqChannel& out = *run->pe().ipcq().out(to);
      IpcqChannel& in = *run->pe().ipcq().in(to);
      for (; sent < program->message_count_ && out.next_credit(); ++sent) {
        run->wait_until(*out.next_credit());
        run->send(out, own);
      }
      if (sent < program->message_count_) out.wake_on_credit(run->wake());
      for (; received < program->message_count_ && has_received(in); ++received) {
        run->close_receive(*posted);
        run->store(buffer, 0, run->math(MathOp::add, own, posted->tile));
        posted.reset();
      }
      if (received == program->message_count_ && sent == program->message_count_) finish();
    }
    // Has the next receive posted, and is woken when its message is there.
    bool has_received(IpcqChannel& in) {
      if (!posted) posted = run->post_receive(in, DType::f32, kElements);
      IpcqPost& post = KernelRun::find_post(*posted);
      post.wakes = post.state == IpcqPost::State::open;
      return !post.wakes;
    }
    void finish() {
      if (finished) return;
      if (run->outstanding() > 0) return run->wake_when_outstanding(0);
      finished = true;
      program->machine_.launcher().kernel_finished(*program->launch_, index);
    }
  };

  void start(std::uint64_t index) { kernels_[index].begin(); }
  void end() {
    done_ = true;
    ended_ = machine_.engine().now();
  }

  Machine& machine_;
  const int message_count_;
  std::deque<Kernel> kernels_;
  Launcher::Launch* launch_ = nullptr;
  Time started_{0};
  Time ended_{0};
  bool done_ = false;
};

}  // namespace kernbench::sim
