// Counts which collectives of a group each member has called, and compares the calls on arrival.
//
// Calls match by their order on each member.  The first member to arrive at a sequence number
// states what the collective is; every later one is compared with it before it may start anything.

#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/distributed/collective.h"
#include "sim_engine/topology/folding.h"

namespace kernbench::distributed {

class CollectiveLedger {
 public:
  // `members` are global ranks, by group rank.
  explicit CollectiveLedger(std::vector<int> members);

  // The member call.rank calls its next collective, which is number call.sequence().  Returns the
  // collective's operation: `operation` if this member is the first to arrive.
  // Throws
  //   CollectiveMismatchError KB-C001  the call differs from the first one
  //   DeadlockError           KB-C002  a member has left (KB-C021 for a monitored barrier)
  //   CollectiveError         KB-C011  two ranks brought tensors of one device
  //   CollectiveError         KB-C015  the member's last call was refused: others may wait in
  //                                    the collective that it has not joined, and its next
  //                                    call would meet what they sent
  std::uint64_t arrive(const CollectiveCall& call, std::uint64_t operation);

  // The members that this one stands for call it too.
  // REQUIRES: arrive(call) was the last call of any member
  void arrive_for_others(const CollectiveCall& call, const sim::Folding& folding);

  // The member will call no more: it has returned, or was never started.
  // Throws DeadlockError KB-C002 if others have called a collective that it has not (KB-C021 for a
  // monitored barrier).
  void leave(int rank, bool was_started);

  // Returns the members that have not called collective `sequence`: global ranks, ascending.
  std::vector<int> missing(std::uint64_t sequence) const;

  // "had returned", "was never started"; empty if the member is present.
  std::string_view describe_absence(int rank) const;

  // The number of calls that the member has made since one was refused.
  int futile_calls(int rank) const;

  // The members may call no more.  Returns the operations that some have called and others not,
  // which are given up.
  std::vector<std::uint64_t> fail(std::exception_ptr why);
  // Returns the exception that fail() was given last; null if the members may call.
  const std::exception_ptr& failure() const { return failure_; }
  // Throws failure() to a member whose call fails for it.
  void refuse_if_failed(int rank);
  bool has_given_up(std::uint64_t operation) const { return given_up_.contains(operation); }

  // The number of collectives that the member has called.
  std::uint64_t next_sequence(int rank) const { return member(rank).next_sequence; }

 private:
  enum class Absence : std::uint8_t { present, returned, never_started };
  struct Member {
    int global_rank = 0;
    std::uint64_t next_sequence = 0;
    Absence absence = Absence::present;
  };
  struct Arrival {
    int rank = 0;
    // Element counts, kept only where members may differ: one entry if all are equal, else one per
    // member.
    std::vector<std::int64_t> gives = {};
    std::vector<std::int64_t> takes = {};
  };
  struct Record {
    std::uint64_t operation = 0;
    CollectiveCall first = {};             // the first member's, without its tensors
    std::vector<Arrival> arrivals = {};    // in the order of arrival
    std::size_t stood_for = 0;             // members that others have arrived for
    bool is_uniform = true;                // all members have the same counts
    std::vector<int> rank_of_device = {};  // global ranks; -1: nobody brought a tensor on it
  };

  const Member& member(int rank) const { return members_.at(static_cast<std::size_t>(rank)); }
  void check_match(const Record& record, const CollectiveCall& later) const;
  void check_sizes(Record& record, const Arrival& arrival, const CollectiveCall& later) const;
  void note_device(Record& record, const CollectiveCall& later) const;
  void check_nobody_left(const Record& record) const;
  std::string describe_others(const Member& absent, std::uint64_t sequence) const;
  bool is_settled(std::uint64_t sequence) const;
  bool cannot_call(const Member& member, std::uint64_t sequence) const {
    return member.absence != Absence::present && member.next_sequence <= sequence;
  }
  [[noreturn]] void report_monitored_barrier(const Record& record) const;
  void forget_complete_records();

  std::vector<Member> members_;  // by group rank
  int absent_count_ = 0;
  struct Refusal {
    std::string what;  // "all_reduce#0 (...) at x.cpp:9 was refused (KB-C001)"
    int calls = 0;     // since then
  };
  std::map<int, Refusal> refused_;    // by group rank
  std::exception_ptr failure_;
  std::set<std::uint64_t> given_up_;  // operations
  std::uint64_t first_sequence_ = 0;  // of records_.front()
  std::deque<Record> records_;        // of collectives that not all members have called yet
};

}  // namespace kernbench::distributed
