// Every mapping of tensors that lie in every way inside the device, forward and backward, beside
// plain loops over the ranks' matrices.

#include <catch2/catch.hpp>
#include <map>

#include "runtime/ops/placement.h"
#include "test/tp/all_mappings.h"
#include "test/tp/tensor_parallel_world.h"

namespace kernbench::test::mapping_placements_test {
namespace {

using Matrices = std::vector<Matrix>;  // by rank

constexpr std::int64_t kSize = 24;  // of what is cut: ranks and PEs divide it

// How a rank's result, or gradient, comes out of all ranks'.
using Loops = Matrix (*)(const Matrices& all, int rank);

Matrix own(const Matrices& all, int rank) {
  return all[static_cast<std::size_t>(rank)];
}
Matrix sum(const Matrices& all, int) {
  Matrix total = all.front();
  for (std::size_t i = 1; i < all.size(); ++i) {
    total = total.zipped(all[i], [](float a, float b) { return a + b; });
  }
  return total;
}
Matrix rows(const Matrices& all, int) {
  Matrix whole(0, all.front().columns);
  for (const Matrix& part : all) {
    whole.rows += part.rows;
    whole.elements.insert(whole.elements.end(), part.elements.begin(), part.elements.end());
  }
  return whole;
}
Matrix columns(const Matrices& all, int rank) {
  Matrices transposed;
  for (const Matrix& part : all) transposed.push_back(part.transposed());
  return rows(transposed, rank).transposed();
}
Matrix rows_of_own(const Matrices& all, int rank) {
  return own(all, rank).rows_of(rank, static_cast<int>(all.size()));
}
Matrix columns_of_own(const Matrices& all, int rank) {
  return own(all, rank).columns_of(rank, static_cast<int>(all.size()));
}
Matrix rows_of_sum(const Matrices& all, int rank) {
  return sum(all, rank).rows_of(rank, static_cast<int>(all.size()));
}
Matrix columns_of_sum(const Matrices& all, int rank) {
  return sum(all, rank).columns_of(rank, static_cast<int>(all.size()));
}
// Part r of every rank's.
Matrix exchanged(const Matrices& all, int rank) {
  Matrices parts;
  for (const Matrix& x : all) parts.push_back(x.rows_of(rank, static_cast<int>(all.size())));
  return rows(parts, rank);
}
Matrix rows_for_columns(const Matrices& all, int rank) {
  Matrices parts;
  for (const Matrix& x : all) parts.push_back(x.columns_of(rank, static_cast<int>(all.size())));
  return rows(parts, rank);
}
Matrix columns_for_rows(const Matrices& all, int rank) {
  Matrices parts;
  for (const Matrix& x : all) parts.push_back(x.rows_of(rank, static_cast<int>(all.size())));
  return columns(parts, rank);
}

// A dimension that must not be cut over PEs when there are several ranks.
enum class Cut : std::uint8_t { any, no_columns, nothing };

struct Expected {
  Loops forward;
  Loops backward;
  Cut cut = Cut::any;
  bool sends_back = true;  // backward communicates, and so makes a sum of holders whole
};

const std::map<std::string, Expected> kExpected = {
    {"copy_to", {own, sum}},
    {"reduce_from", {sum, own, Cut::any, false}},
    {"scatter_to", {columns_of_own, columns, Cut::no_columns}},
    {"gather_from", {columns, columns_of_own, Cut::any, false}},
    {"scatter rows", {rows_of_own, rows}},
    {"gather rows of summands", {rows, rows_of_sum}},
    {"gather rows", {rows, rows_of_own, Cut::any, false}},
    {"reduce-scatter rows", {rows_of_sum, rows}},
    {"gather columns of summands", {columns, columns_of_sum}},
    {"reduce-scatter columns", {columns_of_sum, columns, Cut::no_columns}},
    {"all_to_all", {exchanged, exchanged}},
    {"all_to_all_sp2hp", {rows_for_columns, columns_for_rows, Cut::nothing}},
    {"all_to_all_hp2sp", {columns_for_rows, rows_for_columns, Cut::nothing}},
};

bool is_cut(const DPPolicy& dp, Shard shard) {
  return dp.cube == shard || dp.pe == shard;
}

bool is_refused(Cut cut, const DPPolicy& dp, int ranks) {
  if (ranks == 1 || cut == Cut::any) return false;
  const bool rows = cut == Cut::nothing && is_cut(dp, Shard::row_wise);
  return rows || is_cut(dp, Shard::column_wise);
}

// A tensor that lies so.  In a sum of holders, all but the first have a 3 everywhere.
Tensor placed(TensorParallelWorld& world, const Matrix& matrix, const DPPolicy& dp) {
  Tensor made = world.torch.empty({matrix.rows, matrix.columns}, {.dp = dp});
  const int cubes = dp.cube == Shard::partial ? dp.num_cubes : 1;
  const int pes = dp.pe == Shard::partial ? dp.num_pes : 1;
  const std::vector<ShardInfo>& shards = made.shards();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const ShardInfo& shard = shards[i];
    const bool is_first =
        (cubes == 1 || shard.cube == shards[0].cube) && (pes == 1 || shard.pe == shards[0].pe);
    Matrix part = matrix.rows_from(shard.offset[0], shard.shape[0])
                      .columns_from(shard.offset[1], shard.shape[1]);
    for (float& e : part.elements)
      e = is_first ? e - 3.0F * static_cast<float>(cubes * pes - 1) : 3;
    made.copy_shard_(i, RuntimeContext::tensor(part.elements, shard.shape));
  }
  return made;
}

// True if every holder has the part of the matrix that its placement says.
bool is_placed(const Tensor& found, const Matrix& expected) {
  if (found.to_vector() != expected.elements) return false;
  if (is_partial(found.dp())) return true;
  for (std::size_t i = 0; i < found.shards().size(); ++i) {
    const ShardInfo& shard = found.shards()[i];
    const Matrix part = expected.rows_from(shard.offset[0], shard.shape[0])
                            .columns_from(shard.offset[1], shard.shape[1]);
    if (found.shard_to_vector(i) != part.elements) return false;
  }
  return true;
}

// A gradient for y: that of its placement, or partial where y is replicated.
DPPolicy gradient_policy(const DPPolicy& y, bool is_summand) {
  const auto level = [&](Shard shard) {
    if (shard == Shard::partial) return Shard::replicate;
    return is_summand && shard == Shard::replicate ? Shard::partial : shard;
  };
  return {level(y.cube), level(y.pe), y.num_cubes, y.num_pes};
}

// True if a summand of the gradient meets a holder that has a part, or a summand, of x.
bool meets_a_part(const DPPolicy& dy, const DPPolicy& x) {
  const auto meets = [](Shard gradient, Shard tensor) {
    return gradient == Shard::partial && tensor != Shard::replicate;
  };
  return meets(dy.cube, x.cube) || meets(dy.pe, x.pe);
}

struct Point {
  TensorParallelWorld& world;
  const Mapping& mapping;
  const DPPolicy dp;
  const int ranks;  // of each group
  const int group;
  const int rank;  // in its group

  const Expected& expected() const { return kExpected.at(mapping.name); }
  // Returns a matrix for each rank of the group.  Two groups have different matrices.
  Matrices matrices(std::int64_t rows, std::int64_t columns, int seed) const {
    Matrices all;
    for (int r = 0; r < ranks; ++r) {
      all.push_back(Matrix::of_integers(rows, columns, 9, seed + group * ranks + r));
    }
    return all;
  }
};

void check_backward(const Point& point, const Tensor& y, const Tensor& x, bool is_summand) {
  const Expected& expected = point.expected();
  const Matrices gradients = point.matrices(y.shape()[0], y.shape()[1], 7);
  const DPPolicy policy = gradient_policy(y.dp(), is_summand);
  const Tensor dy = placed(point.world, own(gradients, point.rank), policy);
  const std::string refusal = error_of<DeviceError>([&] { y.backward(dy); });
  if (!expected.sends_back && meets_a_part(policy, point.dp)) {
    CHECK_THAT(refusal, Says("KB-F003", "backward", "copy_to_tensor_model_parallel_region"));
    return;
  }
  REQUIRE(refusal == "no error");
  CHECK(is_placed(x.grad(), expected.backward(gradients, point.rank)));
  CHECK(ops::is_gradient_placement(ops::placement_of(x.grad()), ops::placement_of(x)));
}

void check(const Point& point) {
  const Expected& expected = point.expected();
  const Matrices inputs = point.matrices(kSize, kSize, 0);
  for (const bool is_summand : {false, true}) {
    Tensor x = placed(point.world, own(inputs, point.rank), point.dp);
    x.requires_grad_();
    Tensor y;
    const std::string refusal =
        error_of<DeviceError>([&] { y = point.mapping.map(point.world.torch, x); });
    if (is_refused(expected.cut, point.dp, point.ranks)) {
      CHECK_THAT(refusal, Says("KB-F003"));
      continue;
    }
    REQUIRE(refusal == "no error");
    CHECK(is_placed(y, expected.forward(inputs, point.rank)));
    check_backward(point, y, x, is_summand);
  }
}

// Runs `groups` tensor parallel groups with the same number of ranks each.
void check_all(const std::string& backend, int groups, int ranks, int cubes,
               const std::vector<DPPolicy>& dps) {
  TensorParallelWorld world(groups * ranks, {.backend = backend,
                                             .parallel = {.tensor_model_parallel_size = ranks,
                                                          .pipeline_model_parallel_size = groups},
                                             .cubes = cubes});
  world.spawn([&](int rank) {
    for (const Mapping& mapping : all_mappings()) {
      for (const DPPolicy& dp : dps) {
        CAPTURE(backend, ranks, rank, mapping.name, to_string(dp));
        check({world, mapping, dp, ranks, rank / ranks, rank % ranks});
      }
    }
  });
}

constexpr std::array kShards = {Shard::replicate, Shard::row_wise, Shard::column_wise,
                                Shard::partial};

TEST_CASE("what a mapping takes lies in any way on PEs, and its gradient lies so, too",
          "[tp][mappings]") {
  std::vector<DPPolicy> dps;
  for (const Shard pe : kShards) dps.push_back({Shard::replicate, pe, 1, 2});
  const std::string backend = GENERATE("local", "ahbm");
  const int ranks = GENERATE(1, 2, 3);
  check_all(backend, 1, ranks, 1, dps);
}

TEST_CASE("8 ranks in two groups: each mapping is one of its own group", "[tp][mappings]") {
  check_all(GENERATE("local", "ahbm"), 2, 4, 1, {DPPolicy::on_one_pe()});
}

TEST_CASE("what a mapping takes lies in any way on cubes and their PEs", "[tp][mappings]") {
  std::vector<DPPolicy> dps;
  for (const Shard cube : kShards) {
    for (const Shard pe : kShards) dps.push_back({cube, pe, 2, 2});
  }
  const int ranks = GENERATE(1, 2);
  check_all("local", 1, ranks, 2, dps);
}

}  // namespace
}  // namespace kernbench::test::mapping_placements_test
