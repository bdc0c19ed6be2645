// Says which operations come before an operation of a stream, by a vector clock over the streams of
// a rank.
//
// A program may make a stream for each step and forget it, or keep thousands.  So streams share a
// few numbers, StreamSlot, and clocks share what they have in common: a copy takes O(1), and adding
// costs what is new, times the logarithm of the number of slots.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace kernbench::runtime {

class StreamSlots;

// The place of a stream in clocks.  It lives as long as somebody may ask what follows an operation
// of the stream: with its queue, and with the accesses of its kernels that StreamRaces keeps.  Then
// another stream takes the slot.  Entries of older clocks do not matter to it, because it counts on
// from where its predecessor ended.
class StreamSlot {
 public:
  // `stream` is the stream's number, for reports.
  StreamSlot(std::shared_ptr<StreamSlots> slots, int stream);
  ~StreamSlot();
  StreamSlot(const StreamSlot&) = delete;
  StreamSlot& operator=(const StreamSlot&) = delete;

  int index() const { return index_; }
  int stream() const { return stream_; }
  std::uint64_t last() const { return last_; }  // the number of the last operation
  void add_operation() { ++last_; }

 private:
  const std::shared_ptr<StreamSlots> slots_;
  const int stream_;
  const int index_;
  std::uint64_t last_;
};

// The slots of a simulation.
class StreamSlots {
 public:
  // The most that were in use at the same time, and those that are.
  std::size_t count() const { return last_.size(); }
  std::size_t in_use() const { return last_.size() - free_.size(); }

 private:
  friend class StreamSlot;

  int take();

  std::vector<std::uint64_t> last_;  // numbers that were given out, by slot
  std::vector<int> free_;            // the last one is taken next
};

// Counts the operations of each stream that come before.
class StreamClock {
 public:
  void add(const StreamSlot& slot, std::uint64_t number);
  void add(const StreamClock& other) { root_ = joined(root_, other.root_); }
  bool has(const StreamSlot& slot, std::uint64_t number) const;
  // True if both are one object in memory, so that nothing was copied.
  bool shares_all_with(const StreamClock& other) const { return root_ == other.root_; }

 private:
  // The slots are spread over a tree in which node n has those from kWidth n on, and the nodes
  // from kWidth n + 1 on below it.  Equal slots so lie at equal places of all clocks.
  static constexpr std::size_t kWidth = 8;
  struct Node;
  using Ref = std::shared_ptr<const Node>;
  struct Node {
    std::array<std::uint64_t, kWidth> numbers{};
    std::array<Ref, kWidth> below;
    friend bool operator==(const Node&, const Node&) = default;
  };

  static Ref with(const Ref& tree, std::size_t root, std::size_t slot, std::uint64_t number);
  static Ref joined(const Ref& a, const Ref& b);

  Ref root_;
};

// An operation of a stream.
struct StreamPosition {
  std::shared_ptr<const StreamSlot> slot;
  std::uint64_t number = 0;
  StreamClock before;  // what it follows

  bool is_on_stream_of(const StreamPosition& other) const { return slot == other.slot; }
  bool follows(const StreamPosition& other) const { return before.has(*other.slot, other.number); }
  // It, and all that comes before it.
  StreamClock upto() const {
    StreamClock clock = before;
    clock.add(*slot, number);
    return clock;
  }
};

}  // namespace kernbench::runtime
