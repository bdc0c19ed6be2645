#include "ccl/backend/group_devices.h"

#include <algorithm>

#include "runtime/distributed/folded_ranks.h"

namespace kernbench::ccl {

namespace {

std::vector<int> find_stand_ins(const std::vector<int>& ranks, const sim::Folding& folding) {
  std::vector<int> stand_ins;
  if (!folding.is_on()) return stand_ins;
  for (const int rank : ranks) {
    const auto found = std::ranges::find(ranks, folding.first_of(rank));
    if (found == ranks.end()) {
      distributed::refuse_unlike("a group", "the rank that stands for a member is none itself");
    }
    stand_ins.push_back(static_cast<int>(found - ranks.begin()));
  }
  return stand_ins;
}

}  // namespace

GroupDevices GroupDevices::of(const Layout& layout, const std::vector<int>& ranks,
                              const sim::Folding& folding) {
  if (!layout.is_rank_pe()) return {ranks, {}, find_stand_ins(ranks, folding)};
  GroupDevices devices;
  for (int i = 0; i < layout.world_size(); ++i) devices.pes.push_back(layout.pe(i));
  return devices;
}

GroupDevices GroupDevices::of(const distributed::Block& source,
                              const distributed::Block& target) {
  GroupDevices devices{{source.tensor.device()}, {}};
  if (target.tensor.device() != source.tensor.device()) {
    devices.sips.push_back(target.tensor.device());
  }
  return devices;
}

int GroupDevices::count_callers() const {
  if (are_pes()) return 1;
  int callers = 0;
  for (int i = 0; i < static_cast<int>(sips.size()); ++i) callers += stand_in(i) == i;
  return callers;
}

GroupShape GroupDevices::shape(const Topology& topology) const {
  return are_pes() ? shape_of_pes(static_cast<int>(pes.size())) : shape_of_sips(topology, sips);
}

}  // namespace kernbench::ccl
