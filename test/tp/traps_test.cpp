// Each test is about something that re-implementations of Megatron's tensor parallelism get wrong.

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/distributed/group.h"
#include "runtime/functional/functional.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"
#include "tp/mappings.h"
#include "tp/parameter.h"

namespace kernbench::test::traps_test {
namespace {

using tp::ColumnParallelLinear;
using tp::RowParallelLinear;

// `ranks` ranks in one tensor parallel group.
void on_ranks(int ranks, const std::function<void(TensorParallelWorld&, int rank)>& body) {
  TensorParallelWorld world(ranks, {.parallel = {.tensor_model_parallel_size = ranks}});
  world.spawn([&](int rank) { body(world, rank); });
}

// How many collectives the tensor parallel group has called on this rank.
std::uint64_t calls(RuntimeContext& torch) {
  const auto group = tp::get_tensor_model_parallel_group(torch);
  return group.group()->ledger.next_sequence(torch.distributed.get_rank(group));
}

TEST_CASE("1: a reduction leaves what it is given, and is never the unreduced tensor",
          "[tp][traps]") {
  on_ranks(2, [](TensorParallelWorld& world, int rank) {
    const Tensor x = world.filled({4}, static_cast<float>(rank + 1));
    const Tensor sum = tp::reduce_from_tensor_model_parallel_region(world.torch, x);
    CHECK(sum.to_vector() == Floats(4, 3));
    CHECK(x.to_vector() == Floats(4, static_cast<float>(rank + 1)));
    // A view, and a tensor that has been saved for a gradient.
    Tensor leaf = world.filled({2, 2}, 1);
    leaf.requires_grad_();
    const Tensor squared = leaf * leaf;
    const Tensor cubed = squared * leaf;
    CHECK(tp::reduce_from_tensor_model_parallel_region(world.torch, reshape(squared, {4}))
              .to_vector() == Floats(4, 2));
    CHECK(squared.to_vector() == Floats(4, 1));
    cubed.backward(world.filled({2, 2}, 1));
    CHECK(leaf.grad().to_vector() == Floats(4, 3));
  });
}

TEST_CASE("2: label smoothing is over the whole vocabulary, so that ranks agree", "[tp][traps]") {
  // Logits 0 to 7, target 5, 0.1: 2.6298 dense; each of two ranks by itself 2.9250 and 2.3917.
  on_ranks(2, [](TensorParallelWorld& world, int rank) {
    Floats own;
    for (int i = 0; i < 4; ++i) own.push_back(static_cast<float>(4 * rank + i));
    const Floats loss =
        tp::vocab_parallel_cross_entropy(world.torch, world.tensor(own, {1, 4}),
                                         world.tensor({5}, {1}), {.label_smoothing = 0.1})
            .to_vector();
    CHECK(loss.front() == Approx(2.6298).margin(5e-5));
  });
}

TEST_CASE("3: a row-parallel bias is added once, behind the sum", "[tp][traps]") {
  on_ranks(4, [](TensorParallelWorld& world, int) {
    RowParallelLinear layer(world.torch, {.in_features = 8,
                                          .out_features = 3,
                                          .init_method = tp::init_method_constant(0),
                                          .dtype = DType::f32});
    layer.bias.copy_(RuntimeContext::tensor({1, 2, 3}, {3}));
    CHECK(layer.forward(world.filled({1, 2}, 1)).to_vector() == Floats{1, 2, 3});
  });
}

TEST_CASE(
    "4: of sequence parallel layers the replicated parameters' gradients are summed, no others",
    "[tp][traps]") {
  on_ranks(2, [](TensorParallelWorld& world, int) {
    const auto gradients = [&](bool sequence_parallel) {
      const RowParallelLinear layer(world.torch, {.in_features = 4,
                                                  .out_features = 3,
                                                  .sequence_parallel = sequence_parallel,
                                                  .dtype = DType::f32});
      const Tensor y = layer.forward(world.filled({8, 2}, 1));
      y.backward(world.filled(y.shape(), 1));
      const Floats before = layer.bias.grad().to_vector();
      tp::allreduce_sequence_parallel_gradients(world.torch, layer.parameters());
      CHECK(layer.weight.grad().to_vector() == Floats(6, 8));
      return std::pair(before, layer.bias.grad().to_vector());
    };
    CHECK(gradients(true) == std::pair(Floats(3, 4), Floats(3, 8)));
    CHECK(gradients(false) == std::pair(Floats(3, 8), Floats(3, 8)));
  });
}

TEST_CASE("4: and so are those of a layer norm, which must be said of the parameters themselves",
          "[tp][traps]") {
  on_ranks(2, [](TensorParallelWorld& world, int rank) {
    // Rows -1, 1 are their own norm: the gradient of the weight is dy x, that of the bias dy.
    const Tensor x = world.tensor({-1, 1, -1, 1}, {2, 2});
    const auto dy = static_cast<float>(rank + 1);
    const auto summed = [&](bool marks_copies) {
      std::vector<tp::Parameter> norm;
      for (const float value : {1.0F, 0.0F}) {
        norm.emplace_back(world.filled({2}, value).requires_grad_());
      }
      if (marks_copies) {
        for (tp::Parameter parameter : norm) parameter.sequence_parallel = true;
      } else {
        for (tp::Parameter& parameter : norm) parameter.sequence_parallel = true;
      }
      const Tensor y = nn::functional::layer_norm(x, {2}, norm[0], norm[1], 0);
      y.backward(world.filled({2, 2}, dy));
      tp::allreduce_sequence_parallel_gradients(world.torch, norm);
      return std::pair(norm[0].grad().to_vector(), norm[1].grad().to_vector());
    };
    CHECK(summed(false) == std::pair(Floats{-6, 6}, Floats{6, 6}));
    CHECK(summed(true) == std::pair(Floats{-2 * dy, 2 * dy}, Floats{2 * dy, 2 * dy}));
  });
}

TEST_CASE("5: an input's gradient is reduced once, and with disable_grad_reduce not at all",
          "[tp][traps]") {
  on_ranks(4, [](TensorParallelWorld& world, int rank) {
    const auto gradient = [&](bool disable, std::uint64_t expected_calls) {
      const ColumnParallelLinear layer(world.torch, {.in_features = 2,
                                                     .out_features = 4,
                                                     .disable_grad_reduce = disable,
                                                     .init_method = tp::init_method_constant(1),
                                                     .dtype = DType::f32});
      Tensor x = world.filled({1, 2}, 1);
      x.requires_grad_();
      const Tensor y = layer.forward(x);
      const std::uint64_t before = calls(world.torch);
      y.backward(world.filled({1, 1}, static_cast<float>(rank)));
      CHECK(calls(world.torch) == before + expected_calls);
      return x.grad().to_vector();
    };
    CHECK(gradient(false, 1) == Floats(2, 6));
    CHECK(gradient(true, 0) == Floats(2, static_cast<float>(rank)));
  });
}

TEST_CASE("6: of gathered logits the loss would be log(W) too large, with vocab_size it is refused",
          "[tp][traps]") {
  on_ranks(2, [](TensorParallelWorld& world, int) {
    const Tensor gathered = world.tensor({1, 2, 3, 4}, {1, 4});
    const Tensor target = world.tensor({1}, {1});
    const double correct = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0) + std::exp(4.0));
    CHECK(tp::vocab_parallel_cross_entropy(world.torch, gathered, target).item() ==
          Approx(correct - 2 + std::log(2.0)));
    CHECK_THROWS_AS(
        tp::vocab_parallel_cross_entropy(world.torch, gathered, target, {.vocab_size = 4}),
        CollectiveError);
  });
}

TEST_CASE("7: a collective has no gradient, a mapping has", "[tp][traps]") {
  on_ranks(2, [](TensorParallelWorld& world, int rank) {
    Tensor x = world.filled({2}, static_cast<float>(rank));
    x.requires_grad_();
    const Tensor gathered = world.torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
    world.torch.distributed.all_gather_into_tensor(gathered, x);
    CHECK_FALSE(gathered.requires_grad());
    const Tensor mapped = tp::gather_from_sequence_parallel_region(world.torch, x);
    CHECK(mapped.to_vector() == gathered.to_vector());
    mapped.backward(world.filled({4}, static_cast<float>(rank + 1)));
    CHECK(x.grad().to_vector() == Floats(2, 3));  // of both ranks
  });
}

TEST_CASE("7: a collective that writes what backward needs is found in backward", "[tp][traps]") {
  for (const char* backend : {"local", "ahbm"}) {
    TensorParallelWorld world(2,
                              {.backend = backend, .parallel = {.tensor_model_parallel_size = 2}});
    world.spawn([&](int rank) {
      Tensor x = world.filled({2}, static_cast<float>(rank + 1));
      x.requires_grad_();
      const Tensor factor = world.filled({2}, 1);
      const Tensor y = x * factor;
      world.torch.distributed.all_reduce(factor);
      CHECK(y.to_vector() == Floats(2, static_cast<float>(rank + 1)));
      CHECK_THROWS_MATCHES(y.backward(world.filled({2}, 1)), CollectiveError, Says("KB-A005"));
      CHECK_FALSE(x.grad().defined());
    });
  }
}

TEST_CASE("8: tensor_parallel_output_grad is worth a factor of the group's size", "[tp][traps]") {
  on_ranks(3, [](TensorParallelWorld& world, int) {
    const auto gradient = [&](bool is_summand) {
      Tensor x = world.filled({1, 2}, 1);
      x.requires_grad_();
      // All ranks compute the same from all rows.
      sum(tp::gather_from_sequence_parallel_region(world.torch, x, is_summand)).backward();
      return x.grad().to_vector();
    };
    CHECK(gradient(false) == Floats(2, 1));
    CHECK(gradient(true) == Floats(2, 3));
  });
}

TEST_CASE("9: sources are ranks of the world, or of the group where it is said, pp varies slowest",
          "[tp][traps]") {
  TensorParallelWorld world(
      8, {.parallel = {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2}});
  world.spawn([&](int rank) {
    RuntimeContext& torch = world.torch;
    const int source = tp::get_tensor_model_parallel_src_rank(torch);
    CHECK(source == rank / 2 * 2);
    const auto group = tp::get_tensor_model_parallel_group(torch);
    const Tensor x = world.filled({1}, static_cast<float>(rank));
    torch.distributed.broadcast(x, source, {group});
    CHECK(x.item() == static_cast<float>(source));
    if (rank >= 2) {
      CHECK_THAT(error_of<CollectiveError>([&] { torch.distributed.broadcast(x, 0, {group}); }),
                 Catch::Contains("Global rank 0 is not part of group"));
    }
    // tp, then dp, then pp: not tp-pp-dp.
    CHECK(tp::get_data_parallel_group(torch).ranks() ==
          std::vector{rank / 4 * 4 + rank % 2, rank / 4 * 4 + rank % 2 + 2});
    CHECK(tp::get_pipeline_model_parallel_group(torch).ranks() ==
          std::vector{rank % 4, rank % 4 + 4});
  });
}

TEST_CASE("10: a vocabulary is padded to a multiple of what divides it over ranks", "[tp][traps]") {
  CHECK_THROWS_MATCHES(tp::vocab_range_from_global_vocab_size(50'257, 0, 4), CollectiveError,
                       Says("KB-T001", "50257 is not divisible by 4"));
  CHECK(tp::padded_vocab_size(50'257, 4) == 50'688);  // 99 * 128 * 4
  CHECK(tp::padded_vocab_size(50'688, 4) == 50'688);
  CHECK(tp::padded_vocab_size(50'257, 4, 1) == 50'260);
  CHECK(tp::padded_vocab_size(1, 1, 128) == 128);
  CHECK(tp::vocab_range_from_global_vocab_size(50'688, 3, 4).end == 50'688);
}

// A vocabulary of 5 words, padded with zeros to 6 for two ranks.
TEST_CASE("10: words of the padding take part in the loss unless their logits are masked",
          "[tp][traps]") {
  constexpr int kWords = 5;
  const std::int64_t padded = tp::padded_vocab_size(kWords, 2, 1);
  REQUIRE(padded == 6);
  on_ranks(2, [&](TensorParallelWorld& world, int rank) {
    tp::VocabParallelEmbedding table(
        world.torch, {.num_embeddings = padded, .embedding_dim = 2, .dtype = DType::f32});
    Matrix rows = Matrix::of_integers(padded, 2, 2, 1);
    rows.at(kWords, 0) = rows.at(kWords, 1) = 0;
    table.weight.copy_(RuntimeContext::tensor(rows.rows_of(rank, 2).elements, {3, 2}));
    const Tensor ids = world.tensor({0, 4, 2}, {3});
    const Tensor x = table.forward(ids);
    CHECK(x.to_vector() == Floats{rows.at(0, 0), rows.at(0, 1), rows.at(4, 0), rows.at(4, 1),
                                  rows.at(2, 0), rows.at(2, 1)});
    x.backward(world.filled({3, 2}, 1));
    Matrix gradient(padded, 2);
    for (const int id : {0, 4, 2}) gradient.at(id, 0) = gradient.at(id, 1) = 1;
    CHECK(table.weight.grad().to_vector() == gradient.rows_of(rank, 2).elements);

    // Logits 0: the loss is the log of how many words there are.
    const auto loss = [&](float of_padding) {
      Floats own(3, 0);
      if (rank == 1) own[2] = of_padding;
      Tensor logits = world.tensor(own, {1, 3});
      logits.requires_grad_();
      const Tensor of_token = tp::vocab_parallel_cross_entropy(
          world.torch, logits, world.tensor({1}, {1}), {.vocab_size = padded});
      of_token.backward(world.filled({1}, 1));
      return std::pair(of_token.item(), logits.grad().to_vector().back());
    };
    const auto [unmasked, unmasked_gradient] = loss(0);
    CHECK(unmasked == Approx(std::log(6.0)));
    const auto [masked, masked_gradient] = loss(-10'000);
    CHECK(masked == Approx(std::log(5.0)));
    if (rank == 1) {
      CHECK(unmasked_gradient == Approx(1 / 6.0));
      CHECK(masked_gradient == 0);
    }
  });
}

}  // namespace
}  // namespace kernbench::test::traps_test
