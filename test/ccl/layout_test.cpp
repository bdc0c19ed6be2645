// Who takes part in a collective, and where the ports of each of them lead.

#include "ccl/core/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "ccl/backend/kernel_launcher.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/processing_element.h"
#include "sim_engine/topology/direction.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::layout_test {
namespace {

using sim::PeLocation;

// The queues of a layout, as they are on the machine.
class LayoutUnderTest {
 public:
  LayoutUnderTest(const Topology& topology, const ccl::Config& config)
      : torch_(topology, {.data = false}), launcher_(torch_, config) {}

  const ccl::Layout& layout() const { return launcher_.layout(); }

  // Returns where a participant's port leads: to whom, and what the port is called there.  The lane
  // is the one of this cube and PE.
  std::optional<std::pair<int, tl::Port>> behind(int participant, tl::Port port, int cube, int pe) {
    const sim::IpcqChannel* out =
        simulation_of(torch_).machine().pe(place_of(participant, cube, pe)).ipcq().out(port);
    if (out == nullptr) return std::nullopt;
    const PeLocation& to = out->ends().to;
    const int receiver = layout().find_participant(to);
    CHECK(to == place_of(receiver, cube, pe));  // lanes do not meet
    return std::pair{receiver, out->ends().in};
  }

  int most_queues() {
    std::size_t most = 0;
    for (int sip = 0; sip < torch_.topology().system.sip_count; ++sip) {
      for (int cube = 0; cube < torch_.topology().cube_count(); ++cube) {
        for (int pe = 0; pe < torch_.topology().pe_count(); ++pe) {
          const auto& ipcq = simulation_of(torch_).machine().pe({sip, cube, pe}).ipcq();
          most = std::max(most, ipcq.ins().size());
        }
      }
    }
    return static_cast<int>(most);
  }

 private:
  PeLocation place_of(int participant, int cube, int pe) const {
    const PeLocation& at = layout().pe(participant);
    return layout().is_rank_pe() ? at : PeLocation{at.sip, cube, pe};
  }

  RuntimeContext torch_;
  const ccl::KernelLauncher launcher_;
};

// Lanes to look at.
using Lane = std::pair<int, int>;  // cube, PE

void check_grid(LayoutUnderTest& under_test, Lane lane) {
  const ccl::Layout& layout = under_test.layout();
  for (int i = 0; i < layout.world_size(); ++i) {
    const ccl::GridPlace& place = layout.place(i).grid.value();
    CHECK(place.index == i);
    CHECK(place.grid.count() == layout.world_size());
    for (int side = 0; side < sim::kCompassCount; ++side) {
      const auto towards = static_cast<sim::Compass>(side);
      const int neighbour = place.grid.neighbour(i, towards);
      const auto behind = under_test.behind(i, place.port(towards), lane.first, lane.second);
      REQUIRE(behind.has_value() == (neighbour >= 0));
      if (!behind) continue;
      CHECK(behind->first == neighbour);
      CHECK(behind->second == layout.place(neighbour).grid->port(sim::opposite(towards)));
    }
  }
}

void check_ring(LayoutUnderTest& under_test, Lane lane) {
  const ccl::Layout& layout = under_test.layout();
  std::map<int, int> participant_at;  // by index in the ring
  for (int i = 0; i < layout.world_size(); ++i) {
    const ccl::RingPlace& ring = layout.place(i).ring.value();
    CHECK(ring.size == layout.world_size());
    CHECK(participant_at.emplace(ring.index, i).second);
  }
  if (layout.world_size() == 1) return;
  for (const auto& [index, participant] : participant_at) {
    const int next = participant_at.at((index + 1) % layout.world_size());
    const tl::Port out = layout.place(participant).ring->next;
    const tl::Port in = layout.place(next).ring->previous;
    CHECK(under_test.behind(participant, out, lane.first, lane.second) == std::pair{next, in});
    CHECK(under_test.behind(next, in, lane.first, lane.second) == std::pair{participant, out});
    CHECK_FALSE(layout.place(participant).ring->previous == out);
  }
}

void check_tree(LayoutUnderTest& under_test, Lane lane) {
  const ccl::Layout& layout = under_test.layout();
  std::set<int> told;
  for (int i = 0; i < layout.world_size(); ++i) {
    const ccl::TreePlace& tree = layout.place(i).tree.value();
    for (const tl::Port down : tree.children) {
      const auto child = under_test.behind(i, down, lane.first, lane.second);
      REQUIRE(child.has_value());
      CHECK(told.insert(child->first).second);
      CHECK(layout.place(child->first).tree->parent == child->second);
      CHECK(under_test.behind(child->first, child->second, lane.first, lane.second) ==
            std::pair{i, down});
    }
  }
  CHECK(static_cast<int>(told.size()) == layout.world_size() - 1);
  for (int i = 0; i < layout.world_size(); ++i) {
    CHECK(layout.place(i).tree->parent.has_value() == told.contains(i));
  }
}

ccl::Config config(std::string_view text) {
  return ccl::Config::parse(fmt::format("defaults: {{depth: 1, slot: 4 B, {}}}", text));
}
ccl::Config rank_pe(int world_size, std::string_view algorithm) {
  return config(fmt::format("algorithm: {}, world_size: {}", algorithm, world_size));
}

template <class Check>
void for_each_system(Check check) {
  for (const SipTopology kind : kGridTopologies) {
    for (int w = 1; w <= 4; ++w) {
      for (int h = 1; h <= (kind == SipTopology::ring_1d ? 1 : 4); ++h) {
        CAPTURE(name_of(kind), w, h);
        check(round_topology(kind, w, h, 2, 2));
      }
    }
  }
}

TEST_CASE("rank = SIP: every port leads where its place says, in every lane", "[ccl][layout]") {
  for_each_system([](const Topology& topology) {
    LayoutUnderTest under_test(topology, config("algorithm: auto"));
    CHECK_FALSE(under_test.layout().is_rank_pe());
    CHECK(under_test.layout().world_size() == topology.system.sip_count);
    for (const Lane& lane : {Lane{0, 0}, Lane{3, 1}}) {
      check_grid(under_test, lane);
      check_ring(under_test, lane);
      check_tree(under_test, lane);
    }
    CHECK(under_test.layout().most_queues() == under_test.most_queues());
  });
}

TEST_CASE("one PE per SIP: ports are called as inside a SIP, and no other PE has any",
          "[ccl][layout]") {
  for_each_system([](const Topology& topology) {
    LayoutUnderTest under_test(topology, config("algorithm: auto, participants: one_pe_per_sip"));
    check_grid(under_test, {0, 0});
    check_ring(under_test, {0, 0});
    check_tree(under_test, {0, 0});
    CHECK(under_test.layout().most_queues() == under_test.most_queues());
    const ccl::GridPlace& place = *under_test.layout().place(0).grid;
    CHECK(place.port(sim::Compass::north) == tl::Direction::north);
    CHECK_FALSE(under_test.behind(0, place.port(sim::Compass::east), 1, 1));
  });
}

TEST_CASE("a ring of SIPs that an algorithm does not send along needs no queue to close it",
          "[ccl][layout]") {
  const Topology line = round_topology(SipTopology::mesh_2d_no_wrap, 4, 1);
  const tl::Port closing{tl::Direction::global_east, 1};
  LayoutUnderTest ring(line, config("algorithm: ring_allreduce"));
  CHECK(ring.layout().place(3).ring->next == closing);
  CHECK(ring.behind(3, closing, 0, 0).has_value());
  LayoutUnderTest mesh(line, config("algorithm: mesh_allreduce"));
  CHECK_FALSE(mesh.behind(3, closing, 0, 0).has_value());
}

// 2 SIPs of 2 x 2 cubes of 2 PEs.
const Topology kSixteenPes = round_topology(SipTopology::ring_1d, 2, 1, 2, 2);

TEST_CASE("rank = PE: every port leads where its place says, and only what is wanted is there",
          "[ccl][layout]") {
  for (const int world_size : {1, 2, 4, 6, 8, 16}) {
    CAPTURE(world_size);
    LayoutUnderTest ring(kSixteenPes, rank_pe(world_size, "ring_allreduce"));
    LayoutUnderTest grid(kSixteenPes, rank_pe(world_size, "mesh_allreduce"));
    LayoutUnderTest tree(kSixteenPes, rank_pe(world_size, "tree_allreduce"));
    check_ring(ring, {});
    check_grid(grid, {});
    check_tree(tree, {});
    const ccl::Place& in_ring = ring.layout().place(0);
    CHECK((!in_ring.grid && !in_ring.tree));
    const ccl::Place& in_grid = grid.layout().place(0);
    CHECK((!in_grid.ring && !in_grid.tree));
    const ccl::Place& in_tree = tree.layout().place(0);
    CHECK((!in_tree.ring && !in_tree.grid));
    for (LayoutUnderTest* under_test : {&ring, &grid, &tree}) {
      CHECK(under_test->layout().is_rank_pe());
      CHECK(under_test->layout().world_size() == world_size);
      CHECK(under_test->layout().most_queues() == under_test->most_queues());
    }
  }
}

TEST_CASE("rank = PE with auto: all structures side by side, on queues of their own",
          "[ccl][layout]") {
  for (const int world_size : {1, 2, 4, 8, 16}) {
    LayoutUnderTest under_test(kSixteenPes, rank_pe(world_size, "auto"));
    check_ring(under_test, {});
    check_grid(under_test, {});
    check_tree(under_test, {});
    CHECK(under_test.layout().most_queues() == under_test.most_queues());
  }
}

TEST_CASE("rank = PE: PEs are numbered by SIP, cube and PE", "[ccl][layout]") {
  const ccl::Layout layout(kSixteenPes, rank_pe(16, "ring_allreduce"));
  CHECK(layout.pe(0) == PeLocation{0, 0, 0});
  CHECK(layout.pe(1) == PeLocation{0, 0, 1});
  CHECK(layout.pe(7) == PeLocation{0, 3, 1});
  CHECK(layout.pe(8) == PeLocation{1, 0, 0});
  for (int i = 0; i < 16; ++i) CHECK(layout.find_participant(layout.pe(i)) == i);
}

TEST_CASE("rank = PE: the grid is as square as can be, and wide", "[ccl][layout]") {
  Topology topology = round_topology();
  topology.cube.pe_per_corner = 24;
  const auto grid_of = [&](int count) {
    const sim::Grid grid =
        ccl::Layout(topology, rank_pe(count, "mesh_allreduce")).place(0).grid->grid;
    CHECK_FALSE(grid.wraps);
    return std::pair{grid.w, grid.h};
  };
  CHECK(grid_of(1) == std::pair{1, 1});
  CHECK(grid_of(4) == std::pair{2, 2});
  CHECK(grid_of(7) == std::pair{7, 1});
  CHECK(grid_of(8) == std::pair{4, 2});
  CHECK(grid_of(12) == std::pair{4, 3});
  CHECK(grid_of(16) == std::pair{4, 4});
  CHECK(grid_of(24) == std::pair{6, 4});
}

TEST_CASE("a tensor placed for rank = PE gives each participant its columns, in order",
          "[ccl][layout]") {
  for (const int world_size : {1, 2, 4, 6, 8, 16}) {
    CAPTURE(world_size);
    const ccl::Layout layout(kSixteenPes, rank_pe(world_size, "ring_allreduce"));
    const TensorOptions options = layout.placement({.dtype = DType::bf16, .name = "x"});
    CHECK(options.dtype == DType::bf16);
    CHECK(options.name == "x");
    const Shape shape{1, 5 * world_size};
    const auto shards = place(options.dp, shape, kSixteenPes, 0, options.num_sips);
    REQUIRE(static_cast<int>(shards.size()) == world_size);
    for (int i = 0; i < world_size; ++i) {
      const ShardInfo& shard = shards[static_cast<std::size_t>(i)];
      CHECK(PeLocation{shard.sip, shard.cube, shard.pe} == layout.pe(i));
      CHECK(shard.offset == std::vector<std::int64_t>{0, 5 * i});
      CHECK(shard.shape == Shape{1, 5});
    }
  }
}

TEST_CASE("a world size that fills no whole cubes or SIPs is refused with those that do",
          "[ccl][layout][errors]") {
  const auto error = [](int world_size) {
    return config_error_of(
        [&] { ccl::Layout(kSixteenPes, rank_pe(world_size, "ring_allreduce")); });
  };
  const auto text = [](int world_size) {
    return fmt::format(
        "[KB-Y041] world_size {} does not fit topology 'round', whose 16 PEs lie 2 to a "
        "cube and 8 to a SIP; give at most 2, or a multiple of 2 up to 8, or of 8 up to 16",
        world_size);
  };
  for (const int wrong : {3, 5, 7, 9, 10, 12, 15, 17, 24, 1 << 20})
    CHECK(error(wrong) == text(wrong));
  for (const int right : {1, 2, 4, 6, 8, 16}) CHECK(error(right) == "no error");
}

}  // namespace
}  // namespace kernbench::test::layout_test
