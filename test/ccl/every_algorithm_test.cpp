// Each shape of network with each algorithm: every element is right, or the algorithm is refused.
// The communicator checks that no time is under its bound.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <numeric>

#include "ccl/backend/choice.h"
#include "ccl/core/algorithm.h"
#include "ccl/core/config.h"
#include "test/ccl/group_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::every_algorithm_test {
namespace {

using ccl::Algorithm;
using distributed::CollectiveKind;

// The shapes of the shipped files, and those that no file has, of several sizes.
std::vector<Topology> every_shape() {
  std::vector<Topology> all;
  for (const int p : {1, 2, 3, 6, 8}) {
    all.push_back(round_topology(SipTopology::ring_1d, p));
    all.push_back(joined_topology(SipTopology::full_mesh, p));
    all.push_back(joined_topology(SipTopology::switched, p));
    all.push_back(all.back());
    all.back().system.network_switch.sums.emplace();
  }
  for (const SipTopology kind : {SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap}) {
    for (const auto& [w, h] : {std::pair{1, 4}, {2, 2}, {2, 3}, {3, 2}, {4, 2}, {3, 3}}) {
      all.push_back(round_topology(kind, w, h));
    }
  }
  for (const auto& [w, h, d] : {std::tuple{2, 2, 2}, {3, 1, 3}, {2, 3, 2}}) {
    all.push_back(joined_topology(SipTopology::torus_3d, w, h, d));
  }
  for (Topology& topology : all) {
    topology.cube.pe_per_corner = 2;
    topology.cube.hbm.channels = 2;
    topology.system.links_per_pair = topology.system.sip_count % 2 + 1;
  }
  return all;
}

constexpr std::int64_t kCount = 96;  // of what a member gives to, or takes from, each other one

Elements sums_of(const Member& m, std::int64_t count, std::int64_t first = 0) {
  Elements sums(static_cast<std::size_t>(count), 0);
  for (int rank = 0; rank < m.size(); ++rank) {
    const Elements own = elements_of(rank, count, first);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }
  return sums;
}

Tensor giving(const Member& m, std::int64_t count) {
  return make(m.torch, {count}, {.dtype = DType::f32}, elements_of(m.rank, count));
}

// What a member takes from each other one, who gives each a part of its own if `deals`.
Elements parts(const Member& m, bool deals) {
  Elements all;
  for (int rank = 0; rank < m.size(); ++rank) {
    const Elements part = elements_of(rank, kCount, deals ? m.rank * kCount : 0);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<Tensor> pieces(const Member& m, const Tensor& whole, bool are_there = true) {
  std::vector<Tensor> all;
  for (int i = 0; are_there && i < m.size(); ++i) {
    all.push_back(whole.narrow(0, i * kCount, kCount));
  }
  return all;
}

// Runs the collective on a member, and says what is wrong with its elements.
std::string wrong_after(CollectiveKind kind, const Member& m) {
  auto& dist = m.torch.distributed;
  const std::int64_t whole = m.size() * kCount;
  const bool is_first = m.rank == 0;
  const Tensor x = giving(m, kCount);
  const Tensor all = giving(m, whole);
  const Tensor taken = m.torch.zeros({whole}, {.dtype = DType::f32});
  const Tensor part = m.torch.zeros({kCount}, {.dtype = DType::f32});
  switch (kind) {
    case CollectiveKind::all_reduce:
      dist.all_reduce(all);
      return wrong(all, sums_of(m, whole));
    case CollectiveKind::reduce:
      dist.reduce(all, 0);
      return is_first ? wrong(all, sums_of(m, whole)) : "";
    case CollectiveKind::broadcast:
      dist.broadcast(all, 0);
      return wrong(all, elements_of(0, whole));
    case CollectiveKind::all_gather:
      dist.all_gather_into_tensor(taken, x);
      return wrong(taken, parts(m, false));
    case CollectiveKind::reduce_scatter:
      dist.reduce_scatter_tensor(part, all);
      return wrong(part, sums_of(m, kCount, m.rank * kCount));
    case CollectiveKind::all_to_all:
      dist.all_to_all_single(taken, all);
      return wrong(taken, parts(m, true));
    case CollectiveKind::gather:
      dist.gather(x, pieces(m, taken, is_first));
      return is_first ? wrong(taken, parts(m, false)) : "";
    default:
      break;
  }
  dist.scatter(part, pieces(m, all, is_first));
  return wrong(part, elements_of(0, kCount, m.rank * kCount));
}

std::shared_ptr<const ccl::Config> by(const Algorithm& algorithm, CollectiveKind kind) {
  const bool is_all_reduce = kind == CollectiveKind::all_reduce;
  return std::make_shared<const ccl::Config>(
      ccl::Config::parse(is_all_reduce ? fmt::format("defaults: {{algorithm: {}}}", algorithm.name)
                                       : fmt::format("rules: [{{{}: {{algorithm: {}}}}}]",
                                                     ccl::name_of_kind(kind), algorithm.name)));
}

std::vector<int> all_ranks(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// What is wrong with the elements, or the text of the error.
std::string run(const Topology& topology, const Algorithm& algorithm, CollectiveKind kind) {
  try {
    const auto wrong = run_group(topology, all_ranks(topology),
                                 [&](const Member& m) { return wrong_after(kind, m); },
                                 {.ccl = by(algorithm, kind)});
    return fmt::format("{}", fmt::join(wrong, "\n"));
  } catch (const Error& error) {
    return error.what();
  }
}

// The code with which an algorithm must be refused there; "" if it must run.  One rank alone runs
// nothing.
std::string refusal(const Topology& topology, const Algorithm& algorithm, CollectiveKind kind) {
  const bool is_alone = topology.system.sip_count == 1;
  if (algorithm.collective.starts_with("shift")) return is_alone ? "" : "KB-C012";
  if (!serves(algorithm, kind)) return "KB-Y040";
  const auto shape = ccl::shape_of_sips(topology, all_ranks(topology));
  if (!describe_misfit(algorithm, shape).empty()) return "KB-Y047";
  const bool adds_up = topology.system.network_switch.sums.has_value() || is_alone;
  return algorithm.network == ccl::Network::adds_up && !adds_up ? "KB-C024" : "";
}

TEST_CASE("each shape of network, each algorithm, each collective: right, or refused",
          "[ccl][exact][network]") {
  std::map<std::string, int> runs;
  for (const Topology& topology : every_shape()) {
    const Topology::System& system = topology.system;
    for (const Algorithm& algorithm : ccl::library_algorithms()) {
      for (const CollectiveKind kind : ccl::kPlannedKinds) {
        if (!serves(algorithm, kind) && kind != CollectiveKind::all_reduce) continue;
        CAPTURE(name_of(system.topology), system.w, system.h, system.d,
                system.network_switch.sums.has_value(), algorithm.name, ccl::name_of_kind(kind));
        const std::string wanted = refusal(topology, algorithm, kind);
        const std::string error = run(topology, algorithm, kind);
        CHECK_THAT(error, Catch::Contains(wanted));
        if (wanted.empty()) CHECK(error == "");
        ++runs[wanted];
      }
    }
  }
  CHECK(runs[""] > 600);
  for (const char* code : {"KB-C012", "KB-C024", "KB-Y040", "KB-Y047"}) CHECK(runs[code] > 20);
}

}  // namespace
}  // namespace kernbench::test::every_algorithm_test
