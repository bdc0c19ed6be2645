// Sums over the collectives that ranks call, however many there are.

#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "runtime/distributed/collective.h"
#include "runtime/simulation/attachments.h"
#include "sim_engine/base/units.h"

namespace kernbench::distributed {

// The flight recorder keeps a rank's last calls alone, and so cannot sum up a long step.
class CalledCollectives final : public runtime::Attachment {
 public:
  struct Sum {
    std::int64_t calls = 0;
    Bytes bytes = 0;  // of the tensors that ranks compare (compared_tensor())
  };
  using ByFunction = std::map<std::string_view, Sum>;  // "all_gather_into_tensor"

  // Calls without a tensor, such as barriers, do not count.
  void count(int rank, const runtime::FlightEvent& event) {
    if (!event.has_tensor) return;
    Sum& sum = sums_[{rank, event.group}][event.function];
    ++sum.calls;
    sum.bytes += event.shape.numel() * size_of(event.dtype);
  }

  // Returns the sums of a global rank's calls in a group, by its number.
  ByFunction in_group(int rank, int group) const {
    const auto found = sums_.find({rank, group});
    return found == sums_.end() ? ByFunction{} : found->second;
  }

  void forget_ranks() override { sums_.clear(); }

 private:
  std::map<std::pair<int, int>, ByFunction> sums_;  // by rank and group
};

}  // namespace kernbench::distributed
