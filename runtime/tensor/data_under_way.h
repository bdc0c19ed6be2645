// The one rule about data under way (ADR-0151): it decides whether an operation may touch a tensor
// that another operation, issued by a rank that goes on beside it, reads or writes.
//
// Such an operation is under way from its issue until the host knows that it is done: by a wait(),
// by an is_completed() that was true, by a host read of a tensor that it uses, by one of these for
// a later operation of its stream, or because its rank has ended.  The simulated clock plays no
// part, so that a program is refused at every size, on every topology and on every backend, or
// nowhere.
//
//   what comes         on a tensor that is read      on a tensor that is written
//   collective         refused if it writes          refused; of the same group it follows
//   isend, send        goes on                       refused
//   irecv, recv        refused                       refused
//   kernel             refused when it stores        refused
//   copy_ (target)     refused                       refused
//   host read          waits, and knows              waits, and knows
//
// An isend never blocks a later operation: it carries the version that its tensor has at the call
// (take_snapshot()), so later writes do not change what arrives.  "On a tensor" means on its
// elements: a view has those of its tensor, and different rows of a tensor have none in common.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/fiber/function_ref.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tl/store_guard.h"
#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_leases.h"

namespace kernbench::runtime {

// A sequence of numbered operations that end one after the other.  It records up to which of them
// the host knows that they are done.
class Timeline {
 public:
  void know(std::uint64_t number) { known_before_ = std::max(known_before_, number + 1); }
  bool knows(std::uint64_t number) const { return number < known_before_; }

 private:
  std::uint64_t known_before_ = 0;
};

// An operation that a rank has issued and that runs beside it.
struct OperationUnderWay {
  std::string description;           // "all_reduce#3 ([10] Half SUM) at ddp.cpp:41"
  std::uint64_t number = 0;          // counts in the order of issue
  std::shared_ptr<Timeline> stream;  // its group's on its rank; a message has its own
  std::shared_ptr<Timeline> rank;    // all that its rank has issued

  bool is_known_to_be_done() const { return stream->knows(number) || rank->knows(number); }
};

// A use of a tensor's memory by an operation under way.
struct AccessUnderWay {
  std::shared_ptr<const OperationUnderWay> operation;
  bool writes = false;
  std::vector<sim::DeviceBuffer> part;  // the buffers of a part; empty: all buffers of the memory
};

// The uses of one memory, in row-major order of the tensor, by operations that are not known to be
// done, and by some that are.
using AccessesUnderWay = sim::ElementLeases<AccessUnderWay>;

// The way in which an operation is about to use a tensor.
enum class Touch : std::uint8_t {
  reads,
  writes,
  uses,  // a kernel: it reads, and each of its stores is checked by the guard of its launch
};

using DescribeOperation = FunctionRef<std::string()>;

// Throws CollectiveError KB-G003, with the source lines of both operations, if an operation under
// way forbids this one to touch the tensor.  Operations of `stream` never do: they are done before
// it begins.  `what` describes the new operation: "copy_ at ddp.cpp:41".  It also computes deferred
// values that the new operation needs, or would overwrite; check_may_defer() is for one
// that is deferred itself.
void check_may_touch(const Tensor& tensor, Touch touch, DescribeOperation what,
                     const Timeline* stream = nullptr);
void check_may_defer(const Tensor& tensor, Touch touch, DescribeOperation what,
                     const Timeline* stream = nullptr);

// Records that `operation` uses the tensor from now on.
void begin_access(const Tensor& tensor, std::shared_ptr<const OperationUnderWay> operation,
                  bool writes);

// Records that the host has waited for every operation that uses the tensor.
void know_all_done(Tensor::Storage& storage);

// Makes the guard of a kernel that uses these tensors: it must not write what operations under way
// use.  `advice` ends the error text.
tl::StoreGuard make_store_guard(const std::vector<Tensor>& uses, DescribeOperation advice);

}  // namespace kernbench::runtime
