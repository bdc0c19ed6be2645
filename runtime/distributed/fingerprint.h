// What a rank says that it runs when it arrives at a collective, which is compared with what the
// first to arrive runs.
//
// Ten things have to agree.  Operation, shape, type, reduction and root are compared here, as is
// the placement of the tensor, and of a new_group its members.  The others cannot differ where
// calls meet, or may:
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

#include "runtime/context/call_site.h"
#include "runtime/distributed/collective.h"
#include "runtime/tensor/dp_policy.h"
#include "runtime/tensor/shape.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::distributed {

// Plain data: text is made of it only when something is wrong.
struct CollectiveFingerprint {
  std::string_view function;  // "all_reduce_coalesced", a literal
  CollectiveKind kind = CollectiveKind::barrier;

  // Of the tensor that every rank has: what it gives, or, of a scatter, takes.
  std::optional<Shape> shape = std::nullopt;
  DType dtype = DType::f32;
  DPPolicy placement = {};
  bool is_list = false;  // of equal tensors; their shapes may differ from rank to rank

  std::optional<ReduceOp> op = std::nullopt;
  std::optional<int> root = std::nullopt;  // global rank
  std::vector<int> members = {};           // of a new_group

  // Not compared.
  int device = -1;  // must differ between ranks; -1: no tensor
  bool is_async = false;
  std::int64_t timeout_ms = 0;  // of a monitored_barrier
  bool wait_all_ranks = false;  // likewise
  std::source_location location = {};
};

CollectiveFingerprint fingerprint_of(std::string_view function, CollectiveKind kind,
                                     std::source_location location);

// Enters what ranks compare of a tensor.
void note(CollectiveFingerprint& fingerprint, const Tensor& x);

// As PyTorch's ProcessGroupWrapper prints it.
std::string fingerprint_text(const CollectiveFingerprint& fingerprint, std::uint64_t sequence);

// "all_reduce#3 ([10] Half SUM) at ddp.cpp:41"
std::string describe(const CollectiveFingerprint& fingerprint, std::uint64_t sequence);

// "Tensor shapes: [4] vs [5]", ...: in what two differ.  If the operations do, that alone.
std::vector<std::string> differences(const CollectiveFingerprint& a,
                                     const CollectiveFingerprint& b);

// "[0, 2, 5]"
std::string list_of(std::span<const int> ranks);

using runtime::call_site;

}  // namespace kernbench::distributed
