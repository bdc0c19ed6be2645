// One kernel on one PE, as its PE_CPU sees it: the commands it issues and what it may wait for.  It
// does not know fibers: whoever runs the kernel's code passes the event that wakes it.
//
// Timing: the PE_CPU takes `issue` per command, of which a posted receive is one.  It runs ahead of
// its units on a clock of its own and meets simulated time only where it must wait for what is not
// under way yet: for a message, for a slot that is in use, for the end.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim_engine/components/command.h"
#include "sim_engine/components/composite.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/kernel_handles.h"
#include "sim_engine/components/processing_element.h"

namespace kernbench::sim {

// An operand of PE_MATH: a tile, or a number that is repeated for every element.
struct MathOperand {
  Tile tile;
  Scalar number = {};
};

class KernelRun final : public ReceiveIssuer {
 public:
  using PostedReceive = sim::PostedReceive;

  // The kernel starts now.  `wake` is called when what it waits for has come.  Its messages belong
  // to `operation`.
  KernelRun(ProcessingElement& pe, const Event& wake, const Operation& operation = {});
  ~KernelRun();
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;

  ProcessingElement& pe() { return pe_; }
  const ProcessingElement& pe() const { return pe_; }
  Time started() const { return started_; }
  Time cpu_clock() const { return cpu_clock_; }
  const Operation& operation() const override { return operation_; }
  std::uint64_t id() const { return id_; }  // unique among all kernels of the machine
  int outstanding() const { return outstanding_; }

  // Commands: they return at once.  Elements are counted in the buffer's dtype.
  // A shared load comes by way of SharedTiles.
  Tile load(const DeviceBuffer& buffer, const ElementRange& elements, bool is_shared = false);
  Tile load(const DeviceBuffer& buffer, std::int64_t begin, std::int64_t count) {
    return load(buffer, ElementRange{begin, count});
  }
  // Rows of a matrix, whose blocks lie in HBM, that indices number from rows.first on; zeros where
  // there is none.  Which ones is not known when time is simulated, so the same number of bytes
  // comes from each block, the first of them from another block on each PE.
  // REQUIRES: at least one index
  Tile index_select(std::span<const HbmPart> blocks, const Tile& indices, const IndexedRows& rows);
  // A matrix in f32 to which the rows of the blocks are added, each where its index says.
  // `expected`: how many of them are taken to belong to it, and are loaded.
  Tile index_add(std::span<const HbmPart> blocks, const Tile& indices, const IndexedRows& rows,
                 std::int64_t expected);
  // REQUIRES: as many elements as the tile has
  void store(const DeviceBuffer& buffer, const ElementRange& elements, const Tile& tile);
  void store(const DeviceBuffer& buffer, std::int64_t begin, const Tile& tile) {
    store(buffer, ElementRange{begin, tile->element_count}, tile);
  }
  Tile math(MathOp op, const Tile& a, const Tile& b);
  // Tiles must have `element_count` elements; numbers are rounded to `dtype`, the result's type.
  Tile math(MathOp op, DType dtype, std::int64_t element_count,
            std::span<const MathOperand> operands);
  Tile along_axis(AxisOp op, const Tile& tile, const AxisForm& form);  // REQUIRES: not a broadcast
  Tile ramp(DType dtype, std::int64_t start, std::int64_t element_count);
  // accumulator + a b; the accumulator, f32, may be none.  It is used up: if nobody else refers to
  // it, the result takes its place in scratch.
  Tile gemm(const GemmSize& size, const Tile& a, const Tile& b, const Tile& accumulator,
            DType dtype);
  // Calls sim::choose_tile() with this PE's array and its path to the HBM, of whose slice the PEs
  // of the launch have equal shares.
  std::optional<GemmSize> choose_tile(const CompositePlan& plan, const GemmSize& wanted,
                                      Bytes scratch);
  // REQUIRES: the working set is free in scratch; c overlaps none of the others
  void composite(CompositePlan plan);
  void send(IpcqChannel& channel, const Tile& tile);     // REQUIRES: it has a credit at clock()
  void copy_to(IpcqChannel& channel, const Tile& tile);  // REQUIRES: channel.next_post()

  // Views: no commands.
  Tile slice(const Tile& whole, std::int64_t begin, std::int64_t count);
  Tile concat(std::span<const Tile> parts);
  Tile broadcast(const Tile& tile, const AxisForm& form);

  // Posts a receive of the next message that no earlier post takes; its scratch is taken now.
  PostedReceive post_receive(IpcqChannel& channel, DType dtype, std::int64_t count);
  static IpcqPost& find_post(const PostedReceive& receive) {
    return receive.channel->posted(receive.number);
  }
  // Ends the wait for a message that has come.  Returns the message if it was refused, else
  // nullopt.
  std::optional<IpcqMessage> close_receive(const PostedReceive& receive);
  const MessageBalance& message_balance() const { return balance_; }
  int open_receives() const { return open_receives_; }
  Bytes receive_scratch() const { return receive_scratch_; }  // held by open receives
  // Withdraws all open receives: the kernel will not wait for them.
  void withdraw_receives();

  // The PE_CPU is busy without a command.
  void spend(Time time);

  // The PE_CPU's own time, which wait_until() advances to `time`.
  Time clock();
  // `cause` is what made it that time, for the log of causes.
  void wait_until(Time time, CauseLog::Id cause = CauseLog::Id::begin) {
    if (time <= cpu_clock_) return;
    cpu_clock_ = time;
    clock_cause_ = cause;
  }

  // Bytes that the kernel's loads and stores have moved from and to HBM so far, of shared tiles
  // those that it asked for first, and the operations of PE_GEMM and PE_MATH: two for each product
  // and sum of a GEMM, one for each element of another result.
  struct Traffic {
    Bytes loaded = 0;
    Bytes stored = 0;
    std::int64_t operations = 0;
  };
  const Traffic& traffic() const { return traffic_; }
  // The time from the first composite's dispatch to the end of the last one; 0 without composites.
  Time composite_window() const { return composite_window_.end - composite_window_.begin; }
  int composites_under_way() const { return static_cast<int>(composites_.size()); }

  // The waits of the kernel and its commands so far, by cause.
  Waits& waits() override { return waits_; }
  const Waits& waits() const { return waits_; }

  // Waiting.  Each arranges one call of `wake`.
  void wake_at_clock();                   // REQUIRES: cpu_clock() > now
  void wake_when_outstanding(int count);  // or fewer; REQUIRES: count < outstanding()
  void wake_at_next_end();                // of a command; REQUIRES: outstanding() > 0
  const Event& wake() const { return wake_; }

  // The scratch that kernels like this one may fill, and bytes of it that are free at this point of
  // the program: users' kernels leave some to collectives (ProcessingElement).
  Bytes scratch_capacity() const { return pe_.scratch_capacity(operation_.is_collective); }
  Bytes free_scratch() const { return pe_.free_scratch(operation_.is_collective); }

 private:
  struct Window {
    Time begin{0};
    Time end{0};

    void add(Time from, Time to) {
      begin = end == Time{0} ? from : std::min(begin, from);
      end = std::max(end, to);
    }
  };

  Bytes& account() { return pe_.scratch_of(operation_.is_collective); }
  CauseLog::Id cause_of_clock() const;
  Command& issue_next();
  void submit(Command& command);
  void find_hazards(const MemoryUse& use);
  void note(Composite& composite);
  // The result of loads of chosen rows: their tiles, and for each block the value of all elements.
  struct ChosenRows {
    std::vector<Tile> tiles;
    std::vector<Value> blocks;
  };
  ChosenRows load_chosen(std::span<const HbmPart> blocks, const Tile& indices, std::int64_t columns,
                         std::int64_t count);
  void load_chosen(std::span<const HbmPart> blocks, std::span<const std::size_t> of_load,
                   std::int64_t rows, const Tile& indices, std::int64_t columns,
                   ChosenRows& chosen);
  void submit(Command& command, const MemoryUse& use, AccessIndex::Id& noted);
  template <class Kind>
  void issue_send(IpcqChannel& channel, std::uint32_t number, const Tile& tile);
  Tile make_signal();
  // `form`: the further arguments of math_cycles().
  template <class... Form>
  work::Math math_work(std::string_view operation, const Form&... form) const;
  Tile submit_math(Command& command, const Value& value, work::Math math);
  void completed(const Command& command) override;
  void end(const work::Composite& composite, Time started);
  void accepted(const IpcqMessage& message, bool in_one_sip, bool in_slot) override;
  void wake_from_post() override { wake_.function(wake_.object, wake_.argument); }

  ProcessingElement& pe_;
  const Event wake_;
  const Operation operation_;
  const std::uint64_t id_;
  const Time started_;
  Time cpu_clock_;
  CauseLog::Id clock_cause_{};  // what the clock's time came of, before commands were issued
  int outstanding_ = 0;
  int wake_at_outstanding_ = -1;
  bool wake_at_next_end_ = false;
  MessageBalance balance_;
  int open_receives_ = 0;                               // posted and not yet closed
  Bytes receive_scratch_ = 0;                           // theirs
  MemoryOrder::Kernel accesses_;                        // under way
  std::vector<Tile> hazards_;                           // of the command being issued
  std::vector<std::unique_ptr<Composite>> composites_;  // under way
  Traffic traffic_;
  Window composite_window_;
  Waits waits_;
};

}  // namespace kernbench::sim
