#include "runtime/distributed/folded_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "sim_engine/base/error.h"

namespace kernbench::distributed {

namespace {

bool have_unequal_blocks(const std::vector<Block>& blocks) {
  return std::ranges::adjacent_find(blocks, std::not_equal_to(), &Block::count) != blocks.end();
}

}  // namespace

void refuse_unlike(std::string_view what, std::string_view why) {
  throw CollectiveMismatchError("KB-C026",
                                "{}: {}, so that no rank can stand for another one; run all of "
                                "them, without `fold`",
                                what, why);
}

void check_can_be_alike(const runtime::Simulation& simulation, int ranks) {
  const int sips = simulation.topology().system.sip_count;
  if (!simulation.machine().folding().is_on() || ranks == sips) return;
  refuse_unlike("spawn", fmt::format("it starts {} ranks on {} SIPs", ranks, sips));
}

void check_can_be_alike(const runtime::Simulation& simulation, const CollectiveCall& call,
                        const Backend& backend) {
  if (!simulation.machine().folding().is_on()) return;
  const std::string_view what = call.event.function;
  if (!backend.runs_on_streams()) refuse_unlike(what, "its backend has no devices");
  if (have_unequal_blocks(call.gives) || have_unequal_blocks(call.takes)) {
    refuse_unlike(what, "its blocks have unequal sizes");
  }
}

}  // namespace kernbench::distributed
