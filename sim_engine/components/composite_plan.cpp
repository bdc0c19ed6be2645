#include "sim_engine/components/composite_plan.h"

#include <algorithm>
#include <limits>

#include "sim_engine/base/ceil_divide.h"

namespace kernbench::sim {

namespace {

// The transfers of tiles of a matrix whose rows in memory are cut into `along_rows` tiles, and the
// other dimensions of the product into `others`.
Wide count_transfers(const OperandAt& operand, std::int64_t along_rows, Wide others) {
  return (Wide{along_rows} + operand.further_transfers()) * others;
}

}  // namespace

std::size_t count_memory_uses(const CompositePlan& plan) {
  return 3 + plan.a.further().size() + plan.b.further().size() + plan.c.further().size() +
         (plan.bias ? 1 : 0);
}

GemmSize tile_counts(const GemmSize& size, const GemmSize& tile) {
  return {ceil_divide(size.m, tile.m), ceil_divide(size.n, tile.n), ceil_divide(size.k, tile.k)};
}

LoadedBytes count_loaded(const CompositePlan& plan) {
  const auto& [m, n, k] = plan.size;
  const GemmSize counts = tile_counts(plan.size, plan.tile);
  return {Wide{m} * k * counts.n * size_of(plan.a.buffer.dtype),
          Wide{k} * n * counts.m * size_of(plan.b.buffer.dtype),
          plan.bias ? Wide{n} * counts.m * size_of(plan.bias->buffer.dtype) : 0};
}

Wide count_loads(const CompositePlan& plan) {
  const auto& [m, n, k] = tile_counts(plan.size, plan.tile);
  const Wide of_a = plan.a.is_transposed ? count_transfers(plan.a, k, Wide{m} * n)
                                         : count_transfers(plan.a, m, Wide{n} * k);
  const Wide of_b = plan.b.is_transposed ? count_transfers(plan.b, n, Wide{m} * k)
                                         : count_transfers(plan.b, k, Wide{m} * n);
  return of_a + of_b;
}

std::int64_t part_count(const CompositePlan& plan) {
  constexpr Wide kMost = std::numeric_limits<std::int64_t>::max();
  const GemmSize counts = tile_counts(plan.size, plan.tile);
  const Wide stores = count_transfers(plan.c, counts.m, counts.n);
  const Wide others = counts.k + (plan.bias ? 1 : 0) + (plan.has_epilogue() ? 1 : 0);
  return static_cast<std::int64_t>(
      std::min(kMost, count_loads(plan) + stores + Wide{counts.m} * counts.n * others));
}

Bytes working_set(const CompositePlan& plan) {
  const GemmSize& tile = plan.tile;
  const GemmSize counts = tile_counts(plan.size, tile);
  const bool is_one_result = counts.m == 1 && counts.n == 1;
  const std::int64_t results = is_one_result ? 1 : 2;
  const std::int64_t operands = is_one_result && counts.k == 1 ? 1 : 2;
  const Bytes of_operands = tile.m * tile.k * size_of(plan.a.buffer.dtype) +
                            tile.k * tile.n * size_of(plan.b.buffer.dtype);
  const Bytes of_result = tile.m * tile.n * size_of(DType::f32);
  const Bytes of_bias = plan.bias ? tile.n * size_of(plan.bias->buffer.dtype) : 0;
  return operands * of_operands + results * (of_result + of_bias);
}

Bytes loaded_bytes(const CompositePlan& plan) {
  const auto [a, b, bias] = count_loaded(plan);
  return static_cast<Bytes>(a + b + bias);
}

Bytes unshared_bytes(const CompositePlan& plan) {
  const auto [a, b, bias] = count_loaded(plan);
  return static_cast<Bytes>((plan.a.is_shared() ? 0 : a) + (plan.b.is_shared() ? 0 : b) + bias);
}

Bytes stored_bytes(const CompositePlan& plan) {
  return plan.size.m * plan.size.n * size_of(plan.c.buffer.dtype);
}

}  // namespace kernbench::sim
