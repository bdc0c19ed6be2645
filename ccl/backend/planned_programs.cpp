// The steps of a planned collective, by the PEs that take them.

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "ccl/backend/planned_call.h"
#include "ccl/core/sample.h"
#include "ccl/steps/alike_steps.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::ccl {

sim::PeLocation PlannedCall::pe_of(int node, const Lane& lane) const {
  if (devices_.are_pes()) return devices_.pes[static_cast<std::size_t>(node)];
  const int sip = devices_.sips[static_cast<std::size_t>(node / cubes_.count)];
  return {sip, cubes_.count > 1 ? node % cubes_.count : lane.cube, lane.pe};
}

Programs PlannedCall::make_programs(int member) {
  Programs programs;
  for (int cube = 0; cube < cubes_.count; ++cube) {
    const std::shared_ptr<const LaneSteps> steps = find_steps(member, cube);
    for (const auto& [lane, of_lane] : *steps) {
      if (of_lane.steps.empty()) continue;
      programs[pe_of(member * cubes_.count + cube, lane)] = {
          member, lane, std::shared_ptr<const StepList>(steps, &of_lane)};
    }
  }
  return programs;
}

namespace {

std::size_t count_steps(const Programs& programs) {
  return std::accumulate(
      programs.begin(), programs.end(), std::size_t{0},
      [](std::size_t sum, const auto& entry) { return sum + entry.second.steps->steps.size(); });
}

// Returns all followers of a stand-in, or some of many: the fewer, the more steps each has.
std::vector<int> select(const std::vector<int>& followers, std::size_t steps) {
  constexpr std::size_t kMostSteps = 1 << 14;
  const auto most = static_cast<int>(std::clamp<std::size_t>(kMostSteps / (steps + 1), 8, 64));
  std::vector<int> some;
  for (const int i : sample(static_cast<int>(followers.size()), most)) {
    some.push_back(followers[static_cast<std::size_t>(i)]);
  }
  return some;
}

}  // namespace

bool PlannedCall::are_members_alike() {
  std::map<int, std::vector<int>> followers;  // by stand-in
  for (int member = 0; member < member_count(); ++member) {
    if (devices_.stand_in(member) != member) followers[devices_.stand_in(member)].push_back(member);
  }
  const sim::SipNetwork network(topology_);
  return std::ranges::all_of(followers, [&](const auto& entry) {
    const auto& [stand_in, all] = entry;
    const Programs programs = make_programs(stand_in);
    return std::ranges::all_of(select(all, count_steps(programs)), [&](int member) {
      return is_like(programs, stand_in, member, network);
    });
  });
}

bool PlannedCall::is_like(const Programs& programs, int stand_in, int member,
                          const sim::SipNetwork& network) {
  const auto place_seen_from = [&](int from, int node) {
    const auto sip_of = [&](int of) { return devices_.sips[static_cast<std::size_t>(of)]; };
    return network.place_seen_from(sip_of(from), sip_of(node / cubes_.count));
  };
  const auto are_same = [&](int seen_by_stand_in, int seen_by_member) {
    return seen_by_stand_in % cubes_.count == seen_by_member % cubes_.count &&
           place_seen_from(stand_in, seen_by_stand_in) == place_seen_from(member, seen_by_member);
  };
  return std::ranges::equal(programs, make_programs(member), [&](const auto& a, const auto& b) {
    return a.second.lane == b.second.lane &&
           are_alike(*a.second.steps, *b.second.steps, are_same);
  });
}

std::shared_ptr<const LaneSteps> PlannedCall::find_steps(int member, int cube) {
  const int node = member * cubes_.count + cube;
  const auto& [plan, blocks] = planned(node);
  const auto place = [&](const ChunkRange& chunks) { return find_place(member, chunks); };
  const auto make = [&] {
    const CubeFilter cubes{cubes_.has_sums ? cube : kNobody, cubes_.count > 1 ? cube : kNobody};
    return expand(*plan, place, cubes, order_);
  };
  // Members that are PEs have rectangles of this call's.
  if (devices_.are_pes()) return std::make_shared<const LaneSteps>(make());
  StepCache::Key key{plan, order_, {}};
  std::ranges::transform(blocks, std::back_inserter(key.places), place);
  return plans_->steps().steps(node, std::move(key), make);
}

}  // namespace kernbench::ccl
