// Tests the peculiarities of some mappings; mapping_placements_test.cpp has all of them, forward
// and backward.

#include "tp/mappings.h"

#include <catch2/catch.hpp>

#include "runtime/functional/functional.h"
#include "test/tp/all_mappings.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/parameter.h"

namespace kernbench::test::mappings_test {
namespace {

constexpr int kGroup = 4;

// 8 ranks in groups of 4; `rank % 4` is the one in the group.
class EightRanks : public TensorParallelWorld {
 public:
  explicit EightRanks(const std::string& backend)
      : TensorParallelWorld(8, {.backend = backend,
                                .parallel = {.tensor_model_parallel_size = kGroup,
                                             .pipeline_model_parallel_size = 2}}) {}

  // The rank's tensor of one row, or more, filled with its number.
  Tensor of_rank(int rank, const Shape& shape) { return filled(shape, static_cast<float>(rank)); }
};

// On both backends.
void on_8_ranks(const std::function<void(EightRanks&, int rank, int in_group)>& body) {
  for (const char* backend : {"local", "ahbm"}) {
    CAPTURE(backend);
    EightRanks world(backend);
    world.spawn([&](int rank) { body(world, rank, rank % kGroup); });
  }
}

// The gradient of x that flows back from one of mapping(x).
template <class Mapping>
Floats gradient_of(const Tensor& x, const Tensor& dy, Mapping mapping) {
  Tensor leaf = x;
  leaf.requires_grad_();
  mapping(leaf).backward(dy);
  return leaf.grad().to_vector();
}

// [8, 4], the same on all ranks.
const Matrix kRandom = Matrix::of_integers(8, 4, 9, 1);

TEST_CASE("all_to_all sends part r to rank r, and gradients back", "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int rank, int in_group) {
    const auto group = tp::get_tensor_model_parallel_group(world.torch);
    // Rank r sends i + 1 rows of 10 r + i to rank i.
    Floats sent;
    std::vector<std::int64_t> inputs;
    Floats received;
    for (int i = 0; i < kGroup; ++i) {
      sent.insert(sent.end(), static_cast<std::size_t>(i + 1), static_cast<float>(10 * rank + i));
      inputs.push_back(i + 1);
      received.insert(received.end(), static_cast<std::size_t>(in_group + 1),
                      static_cast<float>(10 * (rank / 4 * 4 + i) + in_group));
    }
    const std::vector<std::int64_t> outputs(kGroup, in_group + 1);
    const auto map = [&](const Tensor& t) {
      return tp::all_to_all(world.torch, group, t, outputs, inputs);
    };
    const Tensor x = world.tensor(sent, {10, 1});
    CHECK(map(x).to_vector() == received);
    CHECK(gradient_of(x, map(x).detach(), map) == sent);
    const Tensor even = world.tensor(kRandom);
    const auto same = [&](const Tensor& t) { return tp::all_to_all(world.torch, group, t); };
    CHECK(same(same(even)).to_vector() == kRandom.elements);
  });
}

TEST_CASE("mappings of tensors of three dimensions", "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int, int in_group) {
    const Tensor x = world.tensor(kRandom.elements, {4, 2, 4});
    CHECK(tp::gather_from_tensor_model_parallel_region(
              world.torch, tp::scatter_to_tensor_model_parallel_region(world.torch, x))
              .to_vector() == kRandom.elements);
    const Tensor rows = tp::scatter_to_sequence_parallel_region(world.torch, x);
    CHECK(rows.shape() == Shape{1, 2, 4});
    CHECK(rows.to_vector() == kRandom.rows_of(in_group, kGroup).elements);
    CHECK(tp::gather_from_sequence_parallel_region(world.torch, rows).to_vector() ==
          kRandom.elements);
  });
}

TEST_CASE("sizes that the group does not divide are refused in Megatron's words",
          "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int, int) {
    const auto refusal = [&](auto mapping, const Shape& shape) {
      const Tensor x = world.torch.zeros(shape, {.dp = DPPolicy::on_one_pe(), .name = "x"});
      return error_of<CollectiveError>([&] { mapping(world.torch, x, std::nullopt); });
    };
    CHECK_THAT(refusal(tp::scatter_to_tensor_model_parallel_region, {4, 6}),
               Says("KB-T001", "6 is not divisible by 4"));
    const Says first("KB-T001", "'x' is [6, 4]", "4 ranks",
                     "First dimension of the tensor should be divisible by tensor parallel size");
    CHECK_THAT(refusal(tp::scatter_to_sequence_parallel_region, {6, 4}), first);
    CHECK_THAT(refusal(tp::reduce_scatter_to_sequence_parallel_region, {6, 4}), first);
  });
}

// Times the backward pass of a mapping of a leaf, or of the leaf alone, whose gradient is given.
Time backward_time(TensorParallelWorld& world, const Mapping* mapping) {
  Tensor leaf = world.tensor(kRandom);
  leaf.requires_grad_();
  const Tensor y = mapping == nullptr ? leaf : mapping->map(world.torch, leaf);
  const Tensor dy = world.tensor(kRandom);
  const Time before = world.torch.engine().now();
  y.backward(dy);
  const Time took = world.torch.engine().now() - before;
  CHECK(leaf.grad().to_vector() == kRandom.elements);
  return took;
}

TEST_CASE("with one rank nothing is sent, and a sum of holders is made whole", "[tp][mappings]") {
  for (const char* backend : {"local", "ahbm"}) {
    TensorParallelWorld world(1, {.backend = backend});
    world.spawn([&](int) {
      RuntimeContext& torch = world.torch;
      const Tensor x = world.tensor(kRandom);
      const Time before = torch.engine().now();
      for (const Mapping& mapping : all_mappings()) {
        CAPTURE(mapping.name);
        CHECK(mapping.map(torch, x).storage() == x.storage());
      }
      CHECK(torch.engine().now() == before);

      // Nor in backward: it takes as long as that of y = x, whatever the leaf does with its
      // gradient.
      const Time of_leaf = backward_time(world, nullptr);
      for (const Mapping& mapping : all_mappings()) {
        CAPTURE(mapping.name);
        CHECK(backward_time(world, &mapping) == of_leaf);
      }

      const DPPolicy sum = tp::policy_over_pes(Shard::partial, 1, 2);
      Tensor summands = torch.zeros({2}, {.dp = sum});
      summands.copy_shard_(0, RuntimeContext::tensor({1, 2}, {2}));
      summands.copy_shard_(1, RuntimeContext::tensor({10, 20}, {2}));
      const Tensor whole = tp::reduce_from_tensor_model_parallel_region(torch, summands);
      CHECK(whole.shard_to_vector(0) == Floats{11, 22});
      CHECK(whole.shard_to_vector(1) == Floats{11, 22});
      CHECK(summands.shard_to_vector(1) == Floats{10, 20});
    });
  }
}

TEST_CASE("another group than the tensor parallel one", "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int rank, int in_group) {
    const Tensor sum = tp::reduce_from_tensor_model_parallel_region(
        world.torch, world.of_rank(rank, {1}), tp::get_pipeline_model_parallel_group(world.torch));
    CHECK(sum.item() == static_cast<float>(2 * in_group + 4));
  });
}

}  // namespace
}  // namespace kernbench::test::mappings_test
