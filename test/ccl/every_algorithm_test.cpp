// Each shape of network with each algorithm: every element is right, or the algorithm is refused.
// The communicator checks that no time is under its bound.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "ccl/core/algorithm.h"
#include "ccl/core/config.h"
#include "test/ccl/group_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::every_algorithm_test {
namespace {

using ccl::Algorithm;
using distributed::CollectiveKind;

// A network of SIPs, and which algorithms with needs can run there.
struct Shape {
  Topology topology;
  bool has_powers_of_two;  // its rows and its columns have 1, 2, 4 ... SIPs
  bool is_small_grid;      // it has 2 to 8 SIPs, joined in rows and columns
  bool adds_up = false;    // its switch does

  bool is_grid() const {
    return !joins_all(topology.system.topology) && topology.system.nodes.count <= 1;
  }
};

// The topology with these links at 10 GB/s and 2 us.
Topology with_slow(Topology topology, UnlikeLinks links) {
  links.link = {Bandwidth{10'000'000'000}, Time{2'000'000}};
  topology.system.unlike_links = {links};
  return topology;
}

// Returns the shapes of the shipped files, and those that no file has, in several sizes.
std::vector<Shape> every_shape() {
  std::vector<Shape> all;
  for (const auto& [p, is_power] :
       {std::pair{1, true}, {2, true}, {3, false}, {6, false}, {8, true}}) {
    all.push_back({round_topology(SipTopology::ring_1d, p), is_power, p > 1});
    all.push_back({joined_topology(SipTopology::full_mesh, p), is_power, false});
    all.push_back({joined_topology(SipTopology::switched, p), is_power, false});
    all.push_back({all.back().topology, is_power, false, true});
    all.back().topology.system.network_switch.sums.emplace();
  }
  for (const SipTopology kind : {SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap}) {
    all.push_back({round_topology(kind, 1, 4), true, true});
    all.push_back({round_topology(kind, 2, 2), true, true});
    all.push_back({round_topology(kind, 2, 3), false, true});
    all.push_back({round_topology(kind, 3, 2), false, true});
    all.push_back({round_topology(kind, 4, 2), true, true});
    all.push_back({round_topology(kind, 3, 3), false, false});
  }
  all.push_back({joined_topology(SipTopology::torus_3d, 2, 2, 2), true, true});
  all.push_back({joined_topology(SipTopology::torus_3d, 3, 1, 3), false, false});
  all.push_back({joined_topology(SipTopology::torus_3d, 2, 3, 2), false, false});
  all.push_back({in_nodes(joined_topology(SipTopology::full_mesh, 6), 3), false, false});
  all.push_back({in_nodes(joined_topology(SipTopology::switched, 8), 4), true, false});
  all.push_back({in_nodes(joined_topology(SipTopology::switched, 12), 4), false, false});
  all.push_back(
      {with_slow(joined_topology(SipTopology::full_mesh, 5), {UnlikeLinks::Of::pair, 1, 3, {}}),
       false, false});
  all.push_back({with_slow(round_topology(SipTopology::torus_2d, 4, 2),
                           {UnlikeLinks::Of::dimension, 0, 0, {}}),
                 true, true});
  all.push_back(
      {with_slow(joined_topology(SipTopology::torus_3d, 2, 3, 2), {UnlikeLinks::Of::sip, 4, 0, {}}),
       false, false});
  for (auto& [topology, has_powers, is_small, adds_up] : all) {
    topology.cube.pe_per_corner = 2;
    topology.cube.hbm.channels = 2;
    topology.system.links_per_pair = topology.system.sip_count % 2 + 1;
  }
  return all;
}

// The table says, as `kernbench list` does, which collectives the library's algorithms are for, and
// which groups can run them.
enum class Needs { nothing, powers_of_two, sides_of_4, small_grid, grid, nodes, sums };
struct Served {
  std::vector<CollectiveKind> kinds;
  Needs needs = Needs::nothing;
};
const std::map<std::string_view, Served>& served() {
  using enum CollectiveKind;
  static const std::map<std::string_view, Served> all = {
      {"intercube_allreduce", {{all_reduce}}},
      {"ring_allreduce", {{all_reduce}}},
      {"bidirectional_ring_allreduce", {{all_reduce}}},
      {"mesh_allreduce", {{all_reduce}}},
      {"tree_allreduce", {{all_reduce}}},
      {"hello_send", {{}}},  // it shifts, which no collective does
      {"direct_allreduce", {{all_reduce}}},
      {"hierarchical_allreduce", {{all_reduce}, Needs::nodes}},
      {"hierarchical",
       {{all_gather, reduce_scatter, broadcast, reduce, gather, scatter}, Needs::nodes}},
      {"hierarchical_whole", {{broadcast, reduce}, Needs::nodes}},
      {"switch_allreduce", {{all_reduce}, Needs::sums}},
      {"swing_allreduce", {{all_reduce}, Needs::powers_of_two}},
      {"doubling_allreduce", {{all_reduce}, Needs::powers_of_two}},
      {"binomial", {{all_reduce, reduce_scatter, reduce}, Needs::powers_of_two}},
      {"swing_whole_allreduce", {{all_reduce}, Needs::sides_of_4}},
      {"torus", {{all_gather, reduce_scatter}}},
      {"ring", {{all_gather, reduce_scatter}}},
      {"direct", {{all_gather, reduce_scatter, broadcast, reduce}}},
      {"direct_in_order", {{all_reduce, reduce_scatter}}},
      {"chain", {{broadcast, reduce}}},
      {"half_chains", {{broadcast, reduce}}},
      {"disjoint_trees", {{broadcast, reduce}}},
      {"packed_trees",
       {{all_reduce, all_gather, reduce_scatter, broadcast, reduce}, Needs::small_grid}},
      {"packed_ways", {{all_to_all, gather, scatter}, Needs::grid}},
      {"pairs", {{all_to_all, gather, scatter}}},
      {"pairs_at_once", {{all_to_all, gather, scatter}}},
      {"pairs_spread", {{all_to_all, gather, scatter}}},
  };
  return all;
}

bool is_for(const Algorithm& algorithm, CollectiveKind kind) {
  const std::vector<CollectiveKind>& kinds = served().at(algorithm.name).kinds;
  return std::ranges::find(kinds, kind) != kinds.end();
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

// Returns what a member takes from each other one, who gives each a part of its own if `deals`.
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
std::string wrong_after(CollectiveKind kind, const Member& m, int root) {
  auto& dist = m.torch.distributed;
  const std::int64_t whole = m.size() * kCount;
  const bool is_root = m.rank == root;
  const Tensor x = giving(m, kCount);
  const Tensor all = giving(m, whole);
  const Tensor taken = m.torch.zeros({whole}, {.dtype = DType::f32});
  const Tensor part = m.torch.zeros({kCount}, {.dtype = DType::f32});
  switch (kind) {
    case CollectiveKind::all_reduce:
      dist.all_reduce(all);
      return wrong(all, sums_of(m, whole));
    case CollectiveKind::reduce:
      dist.reduce(all, root);
      return is_root ? wrong(all, sums_of(m, whole)) : "";
    case CollectiveKind::broadcast:
      dist.broadcast(all, root);
      return wrong(all, elements_of(root, whole));
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
      dist.gather(x, pieces(m, taken, is_root), {.dst = root});
      return is_root ? wrong(taken, parts(m, false)) : "";
    default:
      break;
  }
  dist.scatter(part, pieces(m, all, is_root), {.src = root});
  return wrong(part, elements_of(root, kCount, m.rank * kCount));
}

std::shared_ptr<const ccl::Config> by(const Algorithm& algorithm, CollectiveKind kind) {
  const bool is_all_reduce = kind == CollectiveKind::all_reduce;
  return std::make_shared<const ccl::Config>(
      ccl::Config::parse(is_all_reduce ? fmt::format("defaults: {{algorithm: {}}}", algorithm.name)
                                       : fmt::format("rules: [{{{}: {{algorithm: {}}}}}]",
                                                     traits_of(kind).name, algorithm.name)));
}

std::vector<int> all_ranks(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Returns what is wrong with the elements, or the text of the error, with several roots if the
// collective has one.
std::string run(const Topology& topology, const Algorithm& algorithm, CollectiveKind kind) {
  const int size = topology.system.sip_count;
  std::set<int> roots = {0};
  if (traits_of(kind).root != distributed::Root::none) roots.insert({size / 3, size - 1});
  try {
    std::string wrong;
    for (const int root : roots) {
      const auto of_members = run_group(topology, all_ranks(topology),
                                        [&](const Member& m) { return wrong_after(kind, m, root); },
                                        {.ccl = by(algorithm, kind)});
      wrong += fmt::format("{}", fmt::join(of_members, "\n"));
    }
    return wrong;
  } catch (const Error& error) {
    return error.what();
  }
}

bool has_more_than_4_in_a_row(const Shape& shape) {
  const Topology::System& system = shape.topology.system;
  return system.sip_count > 4 && system.h == 1 && system.nodes.count <= 1;
}

// Returns the code with which an algorithm must be refused there; "" if it must run.  One rank
// alone runs nothing.
std::string refusal(const Shape& shape, const Algorithm& algorithm, CollectiveKind kind) {
  const bool is_alone = shape.topology.system.sip_count == 1;
  if (algorithm.name == "hello_send") return is_alone ? "" : "KB-C012";
  if (!is_for(algorithm, kind)) return "KB-Y040";
  switch (served().at(algorithm.name).needs) {
    case Needs::powers_of_two:
      return shape.has_powers_of_two ? "" : "KB-Y047";
    case Needs::sides_of_4:
      return shape.has_powers_of_two && !has_more_than_4_in_a_row(shape) ? "" : "KB-Y047";
    case Needs::small_grid:
      return shape.is_small_grid ? "" : "KB-Y047";
    case Needs::grid:
      return is_alone || !shape.is_grid() ? "KB-Y047" : "";
    case Needs::nodes:
      return shape.topology.system.nodes.count > 1 ? "" : "KB-Y047";
    case Needs::sums:
      return shape.adds_up || is_alone ? "" : "KB-Y047";
    default:
      return "";
  }
}

TEST_CASE("the table of what is served has the library's algorithms", "[ccl][network]") {
  CHECK(served().size() == ccl::library_algorithms().size());
  for (const Algorithm& algorithm : ccl::library_algorithms()) {
    CAPTURE(algorithm.name);
    CHECK(served().contains(algorithm.name));
  }
}

TEST_CASE("each shape of network, each algorithm, each collective: right, or refused",
          "[ccl][exact][network][exhaustive]") {
  std::map<std::string, int> runs;
  for (const Shape& shape : every_shape()) {
    const Topology::System& system = shape.topology.system;
    for (const Algorithm& algorithm : ccl::library_algorithms()) {
      for (const CollectiveKind kind : ccl::kPlannedKinds) {
        if (!is_for(algorithm, kind) && kind != CollectiveKind::all_reduce) continue;
        CAPTURE(name_of(system.topology), system.w, system.h, system.d, shape.adds_up,
                algorithm.name, traits_of(kind).name);
        const std::string wanted = refusal(shape, algorithm, kind);
        const std::string error = run(shape.topology, algorithm, kind);
        CHECK_THAT(error, Catch::Contains(wanted));
        if (wanted.empty()) CHECK(error == "");
        ++runs[wanted];
      }
    }
  }
  CHECK(runs[""] > 600);
  for (const char* code : {"KB-C012", "KB-Y040", "KB-Y047"}) CHECK(runs[code] > 20);
}

}  // namespace
}  // namespace kernbench::test::every_algorithm_test
