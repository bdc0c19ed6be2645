// One kernel on one PE, as its PE_CPU sees it: the commands it issues and what it may wait for.
// Knows nothing of fibers: whoever runs the kernel's code tells how it is woken.
//
// Timing: the PE_CPU takes `issue` per command.  It runs ahead of its units on a clock of its own
// and meets simulated time only where it must wait: for a credit, for a message, for the end.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim_engine/components/command.h"
#include "sim_engine/components/processing_element.h"

namespace kernbench::sim {

class KernelRun {
 public:
  // Starts now.  `wake` is called when what the kernel waits for has come.
  // `collective` is the operation that its messages belong to, 0 for a kernel of the user's.
  KernelRun(ProcessingElement& pe, const Event& wake, std::uint64_t collective = 0);
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;

  ProcessingElement& pe() { return pe_; }
  const ProcessingElement& pe() const { return pe_; }
  Time started() const { return started_; }
  Time cpu_clock() const { return cpu_clock_; }
  std::uint64_t collective() const { return collective_; }
  int outstanding() const { return outstanding_; }

  // Commands: they return at once.  Elements are counted in the buffer's dtype.
  Tile load(const DeviceBuffer& buffer, std::int64_t begin, std::int64_t count);
  void store(const DeviceBuffer& buffer, std::int64_t begin, const Tile& tile);
  Tile math(MathOp op, const Tile& a, const Tile& b);
  // accumulator + a b; the accumulator, f32, may be none.  It is used up: if nobody else refers to
  // it, the result takes its place in scratch.
  Tile gemm(const GemmSize& size, const Tile& a, const Tile& b, const Tile& accumulator,
            DType dtype);
  void send(IpcqChannel& channel, const Tile& tile);  // REQUIRES: channel.has_credit()
  Tile slice(const Tile& whole, std::int64_t begin, std::int64_t count);  // no command: a view
  Tile concat(std::span<const Tile> parts);                               // likewise
  Tile receive(IpcqChannel& channel);  // REQUIRES: channel.has_message()

  // Waiting.  Each arranges one call of `wake`.
  void wake_at_clock();                   // REQUIRES: cpu_clock() > now
  void wake_when_outstanding(int count);  // or fewer; REQUIRES: count < outstanding()
  const Event& wake() const { return wake_; }

  // Bytes of scratch that are free at this point of the program; whether there are so many.
  Bytes free_scratch();
  bool has_free_scratch(Bytes bytes) {
    return pe_.scratch_capacity() - pe_.scratch_in_use() >= bytes || free_scratch() >= bytes;
  }

 private:
  friend class ProcessingElement;

  // An access to memory under way, that later ones of this kernel may have to wait for.
  struct MemoryAccess {
    RegionId region;
    std::int64_t begin;
    std::int64_t end;
    bool writes;
    Tile done;
  };

  static constexpr std::size_t kFewAccesses = 16;

  Command& issue_next(Command::Kind kind);
  void submit(Command& command);
  Tile make_signal();
  void note_access(RegionId region, std::int64_t begin, std::int64_t count, bool writes,
                   const Tile& done);
  void forget_finished_accesses();
  void find_hazards(const Command& command);
  void command_finished();

  ProcessingElement& pe_;
  const Event wake_;
  const std::uint64_t collective_;
  const Time started_;
  Time cpu_clock_;
  int outstanding_ = 0;
  int wake_at_outstanding_ = -1;
  std::vector<MemoryAccess> accesses_;  // finished ones are dropped when it has grown
  std::size_t prune_at_ = kFewAccesses;
  std::vector<Tile> hazards_;  // of the command being issued
};

}  // namespace kernbench::sim
