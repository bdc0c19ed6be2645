// The description of a collective that a rank brings when it arrives; it is compared with that of
// the first rank to arrive.
//
// Ten things have to agree.  Operation, shape, type, reduction and root are compared here, and so
// are the tensor's placement and, for a new_group, the members.  The others either cannot differ
// where calls meet, or may differ:
//   sequence number  calls meet by it: a call too many or too few shows as another operation, or as
//                    a rank that leaves (CollectiveLedger)
//   group, members   a group has a ledger of its own, shared by its members, so calls of different
//                    groups do not meet: they wait for whoever is missing (KB-D001, KB-C002)
//   algorithm        is chosen once for all ranks, by the context's ccl.yaml or by the first to
//                    arrive; a rank has no say in it
//   async_op         may differ: it is about how a rank waits, and PyTorch lets it differ

#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/distributed/collective.h"
#include "runtime/simulation/call_site.h"
#include "runtime/tensor/dp_policy.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/shape.h"

namespace kernbench::distributed {

// Plain data; its text is made only when something is wrong.
struct CollectiveFingerprint {
  std::string_view function;  // "all_reduce_coalesced", a literal
  CollectiveKind kind = CollectiveKind::barrier;

  // The tensor that every rank has: the input, or, for a scatter, the output.
  std::optional<Shape> shape = std::nullopt;
  DType dtype = DType::f32;
  DPPolicy placement = {};
  bool is_list = false;  // of equal tensors; their shapes may differ from rank to rank

  std::optional<ReduceOp> op = std::nullopt;
  std::optional<int> root = std::nullopt;  // global rank
  std::vector<int> members = {};           // for a new_group

  // The fields below are not compared.
  int device = -1;  // must differ between ranks; -1: no tensor
  bool is_async = false;
  std::int64_t timeout_ms = 0;  // for a monitored_barrier
  bool wait_all_ranks = false;  // for a monitored_barrier
  std::source_location location = {};
};

CollectiveFingerprint fingerprint_of(std::string_view function, CollectiveKind kind,
                                     std::source_location location);

// Enters the properties of a tensor that ranks compare.
void note(CollectiveFingerprint& fingerprint, const Tensor& x);

// The text that PyTorch's ProcessGroupWrapper prints for a fingerprint.
std::string fingerprint_text(const CollectiveFingerprint& fingerprint, std::uint64_t sequence);

// "all_reduce#3 ([10] Half SUM) at ddp.cpp:41"
std::string describe(const CollectiveFingerprint& fingerprint, std::uint64_t sequence);

// Lists what differs: "Tensor shapes: [4] vs [5]", ...  If the operations differ, nothing else is
// listed.
std::vector<std::string> differences(const CollectiveFingerprint& a,
                                     const CollectiveFingerprint& b);

// "[0, 2, 5]"
std::string list_of(std::span<const int> ranks);

using runtime::call_site;

}  // namespace kernbench::distributed
