// Who has called which collective of a group, compared on arrival (PYTORCH.md's fingerprints).
//
// Ranks match by the order of their calls.  The first to arrive at a sequence number states what it
// runs; every later one is compared with it before it may start anything.

#pragma once

#include <cstdint>
#include <deque>
#include <source_location>
#include <string>
#include <vector>

#include "runtime/distributed/backend.h"

namespace kernbench::distributed {

// What ranks must agree on, and where the call stands.
struct CollectiveFingerprint {
  std::string function;    // "all_reduce"
  std::string op_type;     // c10d's name: "ALLREDUCE"
  std::string shape = {};  // empty where there is no tensor
  std::string dtype = {};  // PyTorch's name
  std::string reduce_op = {};
  std::string placement = {};
  int device = -1;  // must differ between ranks; -1: no tensor
  std::source_location location = {};
};

// "all_reduce#3 ([10] Half SUM) at ddp.cpp:41"
std::string describe(const CollectiveFingerprint& fingerprint, std::uint64_t sequence);

class CollectiveLedger {
 public:
  explicit CollectiveLedger(int world_size);

  // `rank` calls its next collective.  `operation` is used if it is the first to arrive.
  // Throws CollectiveMismatchError KB-C001, or DeadlockError KB-C002 if a member has left, or
  // CollectiveError KB-C011 if two ranks brought tensors of one device.
  CollectiveCall arrive(int rank, const CollectiveFingerprint& fingerprint,
                        std::uint64_t operation);

  // `rank` will call no more: it returned, or was never started.
  // Throws DeadlockError KB-C002 if others have called what it has not.
  void leave(int rank, bool was_started);

 private:
  struct Record {
    std::uint64_t operation = 0;
    CollectiveFingerprint first;      // what the first to arrive runs
    std::vector<int> ranks;           // in the order of their arrivals
    std::vector<int> rank_of_device;  // -1: nobody brought a tensor on it
  };
  enum class Absence : std::uint8_t { present, returned, never_started };

  void check_match(const Record& record, int rank, const CollectiveFingerprint& later,
                   std::uint64_t sequence) const;
  void note_device(Record& record, int rank, const CollectiveFingerprint& later) const;
  void check_nobody_left(const Record& record, std::uint64_t sequence) const;

  const int world_size_;
  std::vector<std::uint64_t> next_sequence_;  // by rank
  std::vector<Absence> absence_;              // by rank
  int absent_count_ = 0;                      // of those
  std::uint64_t first_sequence_ = 0;          // of records_.front()
  std::deque<Record> records_;                // of those that not all have called yet
};

}  // namespace kernbench::distributed
