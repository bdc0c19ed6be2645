// The mappings, forward and backward: Megatron's cases, of 8 ranks in two tensor parallel groups.

#include "tp/mappings.h"

#include <catch2/catch.hpp>

#include "runtime/functional/functional.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/weights.h"

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

// 0 x size, 1 x size, ..., with 4 more in the second group.
Floats concatenated(int rank, std::size_t size) {
  Floats all;
  for (int i = 0; i < kGroup; ++i)
    all.insert(all.end(), size, static_cast<float>(i + rank / 4 * 4));
  return all;
}

// [8, 4], the same on all ranks.
const Matrix kRandom = Matrix::of_integers(8, 4, 9, 1);
// Rows of 0, of 1, of 2 and of 3.
const Floats kFourRows = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};

TEST_CASE("copy_to: nothing forward, the sum over ranks backward", "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int rank, int) {
    const Tensor x = world.of_rank(rank, {1});
    const auto map = [&](const Tensor& t) {
      return tp::copy_to_tensor_model_parallel_region(world.torch, t);
    };
    CHECK(map(x).to_vector() == x.to_vector());
    CHECK(gradient_of(x, world.of_rank(rank, {1}), map) == Floats{rank < 4 ? 6.0F : 22.0F});
  });
}

TEST_CASE("reduce_from: the sum over ranks forward, nothing backward", "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int rank, int) {
    const Tensor x = world.of_rank(rank, {1});
    const auto map = [&](const Tensor& t) {
      return tp::reduce_from_tensor_model_parallel_region(world.torch, t);
    };
    CHECK(map(x).to_vector() == Floats{rank < 4 ? 6.0F : 22.0F});
    CHECK(gradient_of(x, world.of_rank(rank, {1}), map) == Floats{static_cast<float>(rank)});
  });
}

TEST_CASE("scatter_to: this rank's columns forward, all columns backward", "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int rank, int in_group) {
    const Tensor x = world.tensor(kRandom);
    const auto map = [&](const Tensor& t) {
      return tp::scatter_to_tensor_model_parallel_region(world.torch, t);
    };
    const Tensor column = map(x);
    CHECK(column.shape() == Shape{8, 1});
    CHECK(column.to_vector() == kRandom.columns_of(in_group, kGroup).elements);
    const Tensor row = world.filled({32}, 0);
    CHECK(gradient_of(row, world.of_rank(rank, {8}), map) == concatenated(rank, 8));
  });
}

TEST_CASE("gather_from: all columns forward, this rank's columns backward", "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int rank, int in_group) {
    const auto map = [&](const Tensor& t) {
      return tp::gather_from_tensor_model_parallel_region(world.torch, t);
    };
    CHECK(map(world.of_rank(rank, {8})).to_vector() == concatenated(rank, 8));
    const Tensor column = world.tensor(kRandom.columns_of(in_group, kGroup));
    CHECK(map(column).to_vector() == kRandom.elements);  // side by side, not one behind the other
    CHECK(gradient_of(column, world.tensor(kRandom), map) ==
          kRandom.columns_of(in_group, kGroup).elements);
  });
}

TEST_CASE("scatter to sequence parallel: this rank's rows forward, all rows backward",
          "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int rank, int in_group) {
    const Tensor x = world.tensor(kRandom);
    const auto map = [&](const Tensor& t) {
      return tp::scatter_to_sequence_parallel_region(world.torch, t);
    };
    CHECK(map(x).to_vector() == kRandom.rows_of(in_group, kGroup).elements);
    CHECK(gradient_of(x, world.of_rank(rank, {2, 4}), map) == concatenated(rank, 8));
  });
}

TEST_CASE("gather from sequence parallel: all rows forward, rows of the sum or of its own backward",
          "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int rank, int in_group) {
    const auto map = [&](bool is_summand) {
      return [&world, is_summand](const Tensor& t) {
        return tp::gather_from_sequence_parallel_region(world.torch, t, is_summand);
      };
    };
    const Tensor x = world.of_rank(rank, {1, 4});
    CHECK(map(true)(x).to_vector() == concatenated(rank, 4));
    const Tensor dy = world.tensor(kFourRows, {4, 4});
    const auto t = static_cast<float>(in_group);
    CHECK(gradient_of(x, dy, map(true)) == Floats(4, 4 * t));
    CHECK(gradient_of(world.of_rank(rank, {1, 4}), dy, map(false)) == Floats(4, t));
  });
}

TEST_CASE("reduce-scatter to sequence parallel: rows of the sum forward, all rows backward",
          "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int rank, int in_group) {
    const Tensor x = world.tensor(kFourRows, {4, 4});
    const auto map = [&](const Tensor& t) {
      return tp::reduce_scatter_to_sequence_parallel_region(world.torch, t);
    };
    CHECK(map(x).shape() == Shape{1, 4});
    CHECK(map(x).to_vector() == Floats(4, 4 * static_cast<float>(in_group)));
    CHECK(gradient_of(x, world.of_rank(rank, {1, 4}), map) == concatenated(rank, 4));
  });
}

TEST_CASE("along the last dimension: all_gather and reduce_scatter are each other's gradient",
          "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int, int in_group) {
    const auto gather = [&](const Tensor& t) {
      return tp::all_gather_last_dim_from_tensor_parallel_region(world.torch, t);
    };
    const auto scatter = [&](const Tensor& t) {
      return tp::reduce_scatter_last_dim_to_tensor_parallel_region(world.torch, t);
    };
    const Matrix own = kRandom.columns_of(in_group, kGroup);
    const Matrix four = own.zipped(own, [](float a, float) { return 4 * a; });
    CHECK(gather(world.tensor(own)).to_vector() == kRandom.elements);
    CHECK(gradient_of(world.tensor(own), world.tensor(kRandom), gather) == four.elements);
    CHECK(scatter(world.tensor(kRandom)).to_vector() == four.elements);
    CHECK(gradient_of(world.tensor(kRandom), world.tensor(own), scatter) == kRandom.elements);
  });
}

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

TEST_CASE("tokens for columns and back", "[tp][mappings]") {
  on_8_ranks([](EightRanks& world, int, int in_group) {
    const auto to_columns = [&](const Tensor& t) { return tp::all_to_all_sp2hp(world.torch, t); };
    const auto to_tokens = [&](const Tensor& t) { return tp::all_to_all_hp2sp(world.torch, t); };
    const Floats tokens = kRandom.rows_of(in_group, kGroup).elements;
    const Floats columns = kRandom.columns_of(in_group, kGroup).elements;
    const Tensor of_tokens = world.tensor(tokens, {2, 4});
    const Tensor of_columns = world.tensor(columns, {8, 1});
    CHECK(to_columns(of_tokens).to_vector() == columns);
    CHECK(to_tokens(of_columns).to_vector() == tokens);
    CHECK(gradient_of(world.tensor(tokens, {2, 4}), of_columns, to_columns) == tokens);
    CHECK(gradient_of(world.tensor(columns, {8, 1}), of_tokens, to_tokens) == columns);
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
      const Tensor x = world.torch.zeros(shape, {.dp = DPPolicy::replicated(), .name = "x"});
      return error_of<CollectiveError>([&] { mapping(world.torch, x, std::nullopt); });
    };
    CHECK(refusal(tp::scatter_to_tensor_model_parallel_region, {4, 6}) ==
          "[KB-T001] 6 is not divisible by 4");
    const std::string first =
        "[KB-T001] First dimension of the tensor should be divisible by tensor parallel size: 'x' "
        "is [6, 4], and there are 4 ranks";
    CHECK(refusal(tp::scatter_to_sequence_parallel_region, {6, 4}) == first);
    CHECK(refusal(tp::reduce_scatter_to_sequence_parallel_region, {6, 4}) == first);
  });
}

using MapOne = Tensor (*)(RuntimeContext&, const Tensor&);
constexpr MapOne kAtOneRank[] = {
    [](RuntimeContext& t, const Tensor& x) {
      return tp::copy_to_tensor_model_parallel_region(t, x);
    },
    [](RuntimeContext& t, const Tensor& x) {
      return tp::reduce_from_tensor_model_parallel_region(t, x);
    },
    [](RuntimeContext& t, const Tensor& x) {
      return tp::scatter_to_tensor_model_parallel_region(t, x);
    },
    [](RuntimeContext& t, const Tensor& x) {
      return tp::gather_from_tensor_model_parallel_region(t, x);
    },
    [](RuntimeContext& t, const Tensor& x) {
      return tp::scatter_to_sequence_parallel_region(t, x);
    },
    [](RuntimeContext& t, const Tensor& x) {
      return tp::gather_from_sequence_parallel_region(t, x, true);
    },
    [](RuntimeContext& t, const Tensor& x) {
      return tp::gather_from_sequence_parallel_region(t, x, false);
    },
    [](RuntimeContext& t, const Tensor& x) {
      return tp::reduce_scatter_to_sequence_parallel_region(t, x);
    },
    [](RuntimeContext& t, const Tensor& x) {
      return tp::all_gather_last_dim_from_tensor_parallel_region(t, x);
    },
    [](RuntimeContext& t, const Tensor& x) {
      return tp::reduce_scatter_last_dim_to_tensor_parallel_region(t, x);
    },
    [](RuntimeContext& t, const Tensor& x) { return tp::all_to_all_sp2hp(t, x); },
    [](RuntimeContext& t, const Tensor& x) { return tp::all_to_all_hp2sp(t, x); },
};

// Of a mapping of a leaf, or of the leaf alone; its gradient is what it is given.
Time backward_time(TensorParallelWorld& world, MapOne map) {
  Tensor leaf = world.tensor(kRandom);
  leaf.requires_grad_();
  const Tensor y = map == nullptr ? leaf : map(world.torch, leaf);
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
      CHECK(tp::reduce_from_tensor_model_parallel_region(torch, x).storage() == x.storage());
      CHECK(tp::gather_from_tensor_model_parallel_region(torch, x).storage() == x.storage());
      CHECK(tp::scatter_to_sequence_parallel_region(torch, x).storage() == x.storage());
      CHECK(tp::gather_from_sequence_parallel_region(torch, x).storage() == x.storage());
      CHECK(tp::reduce_scatter_to_sequence_parallel_region(torch, x).storage() == x.storage());
      CHECK(tp::all_to_all_sp2hp(torch, x).storage() == x.storage());
      CHECK(torch.engine().now() == before);

      // Nor in backward: it takes as long as that of y = x, whatever the leaf does with its
      // gradient.
      const Time of_leaf = backward_time(world, nullptr);
      for (const MapOne map : kAtOneRank) CHECK(backward_time(world, map) == of_leaf);

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

TEST_CASE("columns that are cut inside the device are gathered whole, and their gradient is cut",
          "[tp][mappings]") {
  for (const char* backend : {"local", "ahbm"}) {
    TensorParallelWorld world(2,
                              {.backend = backend, .parallel = {.tensor_model_parallel_size = 2}});
    world.spawn([&](int rank) {
      const Matrix own = kRandom.columns_of(rank, 2);
      Tensor x = world.tensor(own, {.dp = tp::policy_over_pes(Shard::column_wise, 1, 2)});
      x.requires_grad_();
      const Tensor all = tp::gather_from_tensor_model_parallel_region(world.torch, x);
      CHECK(all.shard_to_vector(0) == kRandom.elements);
      CHECK(all.shard_to_vector(1) == kRandom.elements);
      all.backward(all.detach());
      CHECK(x.grad().dp() == x.dp());
      CHECK(x.grad().to_vector() == own.elements);
    });
  }
}

}  // namespace
}  // namespace kernbench::test::mappings_test
