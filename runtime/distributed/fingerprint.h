// The texts of a collective's call, and its comparison with that of the first rank to arrive.
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

#include <span>
#include <string>
#include <vector>

#include "runtime/distributed/collective.h"
#include "runtime/simulation/call_site.h"

namespace kernbench::distributed {

// The text that PyTorch's ProcessGroupWrapper prints for a call.
std::string fingerprint_text(const CollectiveCall& call);

// "all_reduce#3 ([10] Half SUM) at ddp.cpp:41"
std::string describe(const CollectiveCall& call);
// "all_reduce#3 ([10] Half SUM) at ddp.cpp:41, of group 2"; the default group is not named.
std::string describe_in_group(const CollectiveCall& call);

// Lists what differs: "Tensor shapes: [4] vs [5]", ...  If the operations differ, nothing else is
// listed.
std::vector<std::string> differences(const CollectiveCall& a, const CollectiveCall& b);

// "[0, 2, 5]"
std::string format_list(std::span<const int> ranks);

using runtime::call_site;

}  // namespace kernbench::distributed
