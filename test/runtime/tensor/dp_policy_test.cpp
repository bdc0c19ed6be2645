// Placement by hand: torch.chunk's sizes, first over cubes, then over the PEs of each cube.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/tensor/tensor_options.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::dp_policy_test {
namespace {

// 2 SIPs of 2 x 2 cubes of 2 PEs.
const Topology kTopology = round_topology(SipTopology::ring_1d, 2, 1, 2, 2);

// "cube.pe [offset]+[shape]" of each shard.
std::vector<std::string> placed(const DPPolicy& policy, const Shape& shape) {
  std::vector<std::string> lines;
  for (const ShardInfo& shard : place(policy, shape, kTopology, 1)) {
    CHECK(shard.sip == 1);
    lines.push_back(fmt::format("{}.{} {}+{}", shard.cube, shard.pe, to_string(Shape(shard.offset)),
                                to_string(shard.shape)));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST_CASE("replicated() is one copy on the first PE", "[tensor][placement]") {
  CHECK(placed(DPPolicy::on_one_pe(), {3, 4}) == Lines{"0.0 [0, 0]+[3, 4]"});
}

TEST_CASE("by default every PE holds all", "[tensor][placement]") {
  CHECK(placed({}, {3}) == Lines{"0.0 [0]+[3]", "0.1 [0]+[3]", "1.0 [0]+[3]", "1.1 [0]+[3]",
                                 "2.0 [0]+[3]", "2.1 [0]+[3]", "3.0 [0]+[3]", "3.1 [0]+[3]"});
}

TEST_CASE("row_wise cuts the first dimension as torch.chunk does: 10 by 4 is 3, 3, 3, 1",
          "[tensor][placement]") {
  CHECK(placed({.cube = Shard::row_wise, .num_pes = 1}, {10, 2}) ==
        Lines{"0.0 [0, 0]+[3, 2]", "1.0 [3, 0]+[3, 2]", "2.0 [6, 0]+[3, 2]", "3.0 [9, 0]+[1, 2]"});
}

TEST_CASE("the last chunks may be empty: 5 by 4 is 2, 2, 1, 0", "[tensor][placement]") {
  CHECK(placed({.cube = Shard::column_wise, .num_pes = 1}, {5}) ==
        Lines{"0.0 [0]+[2]", "1.0 [2]+[2]", "2.0 [4]+[1]", "3.0 [5]+[0]"});
  CHECK(placed({.cube = Shard::row_wise, .num_pes = 1}, {1}) ==
        Lines{"0.0 [0]+[1]", "1.0 [1]+[0]", "2.0 [1]+[0]", "3.0 [1]+[0]"});
  CHECK(placed({.cube = Shard::row_wise, .num_cubes = 2, .num_pes = 1}, {0, 3}) ==
        Lines{"0.0 [0, 0]+[0, 3]", "1.0 [0, 0]+[0, 3]"});
}

TEST_CASE("column_wise cuts the last dimension", "[tensor][placement]") {
  CHECK(placed({.cube = Shard::column_wise, .num_cubes = 3, .num_pes = 1}, {2, 3, 8}) ==
        Lines{"0.0 [0, 0, 0]+[2, 3, 3]", "1.0 [0, 0, 3]+[2, 3, 3]", "2.0 [0, 0, 6]+[2, 3, 2]"});
}

TEST_CASE("the PEs of a cube share the cube's part", "[tensor][placement]") {
  CHECK(placed({.cube = Shard::row_wise, .pe = Shard::column_wise, .num_cubes = 2}, {5, 3}) ==
        Lines{"0.0 [0, 0]+[3, 2]", "0.1 [0, 2]+[3, 1]", "1.0 [3, 0]+[2, 2]", "1.1 [3, 2]+[2, 1]"});
  CHECK(placed({.cube = Shard::row_wise, .pe = Shard::row_wise, .num_cubes = 2}, {5, 3}) ==
        Lines{"0.0 [0, 0]+[2, 3]", "0.1 [2, 0]+[1, 3]", "1.0 [3, 0]+[1, 3]", "1.1 [4, 0]+[1, 3]"});
}

TEST_CASE("holders of summands have the whole shape", "[tensor][placement]") {
  CHECK(placed({.cube = Shard::partial, .pe = Shard::row_wise, .num_cubes = 2}, {3}) ==
        Lines{"0.0 [0]+[2]", "0.1 [2]+[1]", "1.0 [0]+[2]", "1.1 [2]+[1]"});
}

TEST_CASE("a scalar lies whole on every holder", "[tensor][placement]") {
  CHECK(placed({.cube = Shard::row_wise, .pe = Shard::column_wise, .num_cubes = 1}, {}) ==
        Lines{"0.0 []+[]", "0.1 []+[]"});
}

TEST_CASE("more cubes or PEs than there are is refused", "[tensor][placement]") {
  const auto error = [](const DPPolicy& policy) {
    return error_of<DeviceError>([&] { place(policy, {1}, kTopology, 0); });
  };
  CHECK_THAT(error({.num_cubes = 5}), Says("KB-K010", "num_cubes = 5", "4 cubes"));
  CHECK_THAT(error({.num_pes = 3}), Says("KB-K010", "num_pes = 3", "2 pes"));
  CHECK(error({.num_cubes = 4, .num_pes = 2}) == "no error");
  CHECK_THAT(error({.num_pes = -1}), Says("KB-K010", "num_pes = -1"));
}

TEST_CASE("a policy prints what is not the default", "[tensor][placement]") {
  CHECK(to_string(DPPolicy{.cube = Shard::partial, .pe = Shard::column_wise}) ==
        "cube=partial, pe=column_wise");
  CHECK(to_string(DPPolicy::on_one_pe()) == "cube=replicate, pe=replicate, num_cubes=1, num_pes=1");
}

}  // namespace
}  // namespace kernbench::test::dp_policy_test
