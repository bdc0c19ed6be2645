// Who has called which collective of a group, compared on arrival.
//
// Members match by the order of their calls.  The first to arrive at a sequence number states what
// it runs; every later one is compared with it before it may start anything.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/distributed/collective.h"
#include "runtime/distributed/fingerprint.h"

namespace kernbench::distributed {

class CollectiveLedger {
 public:
  // Of a group of these members: global ranks, by group rank.
  explicit CollectiveLedger(std::vector<int> members);

  // The member of group rank `rank` calls its next collective, and gives and takes so many elements
  // to and from each member (the lists of a CollectiveRequest).  `operation` is used if it is the
  // first to arrive.
  // Throws CollectiveMismatchError KB-C001, or DeadlockError KB-C002 if a member has left, or
  // CollectiveError KB-C011 if two ranks brought tensors of one device, or KB-C015 if the
  // member's last call was refused: others may wait in what it has not joined, and what it calls
  // next would meet what they have sent.
  CollectiveCall arrive(int rank, const CollectiveFingerprint& fingerprint,
                        std::span<const Block> gives, std::span<const Block> takes,
                        std::uint64_t operation);

  // It will call no more: it returned, or was never started.
  // Throws DeadlockError KB-C002 if others have called what it has not.
  void leave(int rank, bool was_started);

  // Those that have not called it: global ranks, ascending.
  std::vector<int> missing(std::uint64_t sequence) const;

  // "had returned", "was never started"; empty: it is there.
  std::string_view absence_of(int rank) const;

  // How often it has called since it was refused.
  int futile_calls(int rank) const;

  // How many collectives it has called.
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
    // Elements; only where members may differ.  One entry if they are equal, else for each member.
    std::vector<std::int64_t> gives;
    std::vector<std::int64_t> takes;
  };
  struct Record {
    std::uint64_t operation = 0;
    CollectiveFingerprint first;      // what the first to arrive runs
    std::vector<Arrival> arrivals;    // in their order
    bool is_uniform = true;           // all of them give and take alike
    std::vector<int> rank_of_device;  // global ranks; -1: nobody brought a tensor on it
  };

  const Member& member(int rank) const { return members_.at(static_cast<std::size_t>(rank)); }
  void check_match(const Record& record, int rank, const CollectiveFingerprint& later,
                   std::uint64_t sequence) const;
  void check_sizes(Record& record, const Arrival& later, const CollectiveFingerprint& fingerprint,
                   std::uint64_t sequence) const;
  void note_device(Record& record, int rank, const CollectiveFingerprint& later) const;
  void check_nobody_left(const Record& record, std::uint64_t sequence) const;
  std::string describe_others(const Member& absent, std::uint64_t sequence) const;
  bool is_settled(std::uint64_t sequence) const;
  bool cannot_call(const Member& member, std::uint64_t sequence) const {
    return member.absence != Absence::present && member.next_sequence <= sequence;
  }
  [[noreturn]] void report_monitored_barrier(const Record& record, std::uint64_t sequence) const;
  void forget_complete_records();

  std::vector<Member> members_;  // by group rank
  int absent_count_ = 0;
  struct Refusal {
    std::string what;  // "all_reduce#0 (...) at x.cpp:9 was refused (KB-C001)"
    int calls = 0;     // since then
  };
  std::map<int, Refusal> refused_;    // by group rank
  std::uint64_t first_sequence_ = 0;  // of records_.front()
  std::deque<Record> records_;        // of those that not all have called yet
};

}  // namespace kernbench::distributed
