// What a node of a plan keeps in scratch at a time, counted by hand.

#include "ccl/steps/scratch_use.h"

#include <catch2/catch.hpp>

#include "ccl/steps/cut_sizes.h"
#include "test/support/small_topology.h"

namespace kernbench::test::scratch_use_test {
namespace {

using ccl::Move;
using ccl::Plan;

// Slices that begin one by one, far enough apart that no two are under way at once.
Plan lone_slice(std::vector<Move> moves) {
  Plan plan(Plan::Kind::all_reduce, 0);
  plan.chunk_count = 4;
  plan.length = 100;
  plan.slices_at_once = 1;
  plan.slice_interval = 100;
  plan.moves = std::move(moves);
  return plan;
}

Move move_at(int time) {
  Move move;
  move.time = time;
  return move;
}

Move forwards(int time) {
  Move move = move_at(time);
  move.from = {1};
  move.to = {2};
  return move;
}

Move adds(int time) {
  Move move = forwards(time);
  move.chunks = {0, 2};
  move.has_source = true;
  return move;
}

TEST_CASE("a message that is sent on is kept once", "[ccl][scratch]") {
  CHECK(ccl::most_chunks_kept(lone_slice({forwards(7)}), 1) == 1);
}

TEST_CASE("a sum is kept beside its message and its summands", "[ccl][scratch]") {
  CHECK(ccl::most_chunks_kept(lone_slice({adds(7)}), 1) == 2 * (1 + 1 + 1));
  // One summand is loaded at a time, and the new sum stands beside the old one.
  CHECK(ccl::most_chunks_kept(lone_slice({adds(7)}), 4) == 2 * (1 + 1 + 1) + 2 * 2);
}

TEST_CASE("receives of the next two times are posted", "[ccl][scratch]") {
  // At time 7, 8 and 9 are posted, too; the one of 6 is being sent.
  const Plan plan = lone_slice({forwards(6), forwards(7), forwards(8), forwards(9)});
  CHECK(ccl::most_chunks_kept(plan, 1) == 4);
  CHECK(ccl::most_chunks_kept(lone_slice({forwards(6), forwards(10)}), 1) == 1);
}

TEST_CASE("a value is held until its last use", "[ccl][scratch]") {
  Move loads = move_at(10);
  loads.has_source = true;
  Move uses = move_at(20);
  uses.held = {0};
  uses.to = {1};
  CHECK(ccl::most_chunks_kept(lone_slice({loads, forwards(15)}), 1) == 1);
  CHECK(ccl::most_chunks_kept(lone_slice({loads, forwards(15), uses}), 1) == 2);
}

TEST_CASE("slices that are under way at once are kept together", "[ccl][scratch]") {
  Plan plan = lone_slice({forwards(7)});
  plan.slices_at_once = 3;
  CHECK(ccl::most_chunks_kept(plan, 1) == 3);
  plan.slice_interval = 1;  // of each slice a message: posted for two times, come, and being sent
  CHECK(ccl::most_chunks_kept(plan, 1) == 3 * 4);
  plan.slice_interval = 2;
  CHECK(ccl::most_chunks_kept(plan, 1) == 3 * 2);
}

// A third of TCM, or less if less is left to collectives.
TEST_CASE("messages have the scratch that collectives have", "[ccl][scratch]") {
  constexpr std::int64_t kKept = 4;
  Topology topology = small_topology();
  topology.pe.tcm.capacity = 3 << 20;
  const auto bytes = [&](Bytes of_collectives) {
    topology.communication.scratch = of_collectives;
    return 4 * kKept *
           ccl::most_message_elements(topology, DType::f32, lone_slice({adds(0)}), kKept) / 2;
  };
  CHECK(bytes(0) == 1 << 20);
  CHECK(bytes(256 << 10) == 256 << 10);
  CHECK(bytes(2 << 20) == 1 << 20);
}

}  // namespace
}  // namespace kernbench::test::scratch_use_test
