// Tests what context parallelism refuses, and what it does with buffers.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "test/parallel/context_parallel_world.h"

namespace kernbench::test::context_parallel_errors_test {
namespace {

namespace F = nn::functional;
using experimental::ContextParallelOptions;

constexpr int kRanks = 2;

// Runs `use(torch, mesh)` on two ranks.
template <class Use>
void on_ranks(const Use& use) {
  DataParallelWorld world(kRanks);
  world.spawn([&](int) {
    const auto mesh = world.torch.distributed.init_device_mesh("ahbm", {kRanks}, {"cp"});
    use(world.torch, mesh);
  });
}

template <class Use>
std::string refusal_of(const Use& use) {
  return error_of<SpawnException>([&] { on_ranks(use); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("context parallelism refuses what it does not compute", "[context_parallel][errors]") {
  const auto attend = [](const Shape& query, const Shape& key, auto options) {
    return refusal_of([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
      const Tensor q = torch.zeros(query, kOnOnePe);
      const Tensor k = torch.zeros(key, kOnOnePe);
      if (options.attn_mask.defined()) options.attn_mask = torch.zeros({4, 4}, kOnOnePe);
      experimental::context_parallel(mesh, {},
                                     [&] { F::scaled_dot_product_attention(q, k, k, options); });
    });
  };
  const Shape four{1, 2, 4, 8};
  CHECK(has(attend(four, four, F::AttentionOptions{.dropout_p = 0.5}),
            "[KB-C025] Context Parallel does not support dropout, and dropout_p is 0.5"));
  CHECK(has(attend(four, four, F::AttentionOptions{.attn_mask = RuntimeContext::tensor({0})}),
            "[KB-C025] Context Parallel does not support attn_mask"));
  CHECK(has(attend(four, {1, 2, 8, 8}, F::AttentionOptions{.is_causal = true}),
            "[KB-C025] is_causal requires the same query and context sequence lengths"));
  CHECK(has(attend({1, 2, 3, 8}, {1, 2, 3, 8}, F::AttentionOptions{.is_causal = true}),
            "[KB-C025] a rank has 3 tokens of a sequence in the order head_tail; it has two "
            "chunks, and so an even number"));
  CHECK(has(attend({2, 2, 4, 8}, four, F::AttentionOptions{}),
            "[KB-C025] Context Parallel wants key and value of one shape, which is the query's but "
            "for the heads: query is [2, 2, 4, 8], key [1, 2, 4, 8], value [1, 2, 4, 8]"));
  CHECK(has(attend({1, 4, 4, 8}, four, F::AttentionOptions{}),
            "[KB-C025] Number of heads in key and value must divide the number of heads in query, "
            "with enable_gqa"));
}

TEST_CASE("a buffer that requires gradients is refused", "[context_parallel][errors]") {
  CHECK(has(refusal_of([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
              Tensor x = torch.zeros({4, 8}, kOnOnePe);
              x.requires_grad_();
              experimental::context_parallel(mesh, {.buffers = {x}, .buffer_seq_dims = {0}}, [] {});
            }),
            "[4, 8] requires gradients, which a rank's part of it would not have"));
}

// Six tokens make no four chunks, so that the body had them in their order.
TEST_CASE("tokens are put together in the order that the body had", "[context_parallel]") {
  on_ranks([](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
    Tensor x = torch.arange(6, kOnOnePe);
    Tensor part;
    const auto order =
        experimental::context_parallel(mesh,
                                       {.buffers = {x, x},
                                        .buffer_seq_dims = {0, 0},
                                        .order = experimental::TokenOrder::contiguous},
                                       [] {});
    CHECK(order == experimental::TokenOrder::contiguous);
    CHECK(x.numel() == 6);  // a buffer that is given twice is whole again, too
    const auto taken = experimental::context_parallel(
        mesh, {.buffers = {x}, .buffer_seq_dims = {0}}, [&] { part = x; });
    CHECK(taken == experimental::TokenOrder::contiguous);
    CHECK(part.numel() == 3);
    const auto whole = experimental::context_parallel_unshard(mesh, {part}, {0}, taken);
    CHECK(whole[0].to_vector() == std::vector<float>{0, 1, 2, 3, 4, 5});
  });
  CHECK(has(refusal_of([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
              experimental::context_parallel_unshard(mesh, {torch.zeros({3}, kOnOnePe)}, {0});
            }),
            "[KB-C025] 3 tokens of a rank are no two chunks, as head_tail has"));
}

TEST_CASE("summands of attention's inputs are refused", "[context_parallel][errors]") {
  CHECK(has(refusal_of([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
              const DPPolicy partial{Shard::replicate, Shard::partial, 1, 2};
              const Tensor x = torch.zeros({2, 4, 8}, {.dp = partial});
              experimental::context_parallel(mesh, {},
                                             [&] { F::scaled_dot_product_attention(x, x, x); });
            }),
            "[KB-F003] scaled_dot_product_attention"));
}

TEST_CASE("Ulysses refuses heads that ranks do not divide", "[context_parallel][errors]") {
  CHECK(has(refusal_of([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
              const Tensor q = torch.zeros({4, 4, 8}, kOnOnePe);
              const Tensor k = torch.zeros({1, 4, 8}, kOnOnePe);
              experimental::ulysses(mesh, {}, [&] {
                F::scaled_dot_product_attention(q, k, k, {.enable_gqa = true});
              });
            }),
            "[KB-C025] Ulysses deals heads out to ranks: 2 ranks do not divide 1 heads of key"));
}

TEST_CASE("Ulysses refuses sequences of unequal lengths", "[context_parallel][errors]") {
  CHECK(has(refusal_of([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
              const Tensor x = torch.zeros({6, 2, 8}, kOnOnePe);
              const Tensor ends = RuntimeContext::tensor(std::vector<std::int64_t>{0, 2, 6}, {3});
              experimental::ulysses(mesh, {},
                                    [&] { nn::attention::varlen_attn(x, x, x, ends, ends, 4, 4); });
            }),
            "[KB-C025] Ulysses wants sequences of one length: ranks have 2 and 4 tokens"));
}

TEST_CASE("buffers that do not fit are refused in torch's words", "[context_parallel][errors]") {
  const auto share = [](auto make_options) {
    return refusal_of([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
      Tensor x = torch.zeros({1, 7}, kOnOnePe);
      Tensor other = torch.zeros({1, 8}, kOnOnePe);
      experimental::context_parallel(mesh, make_options(x, other), [] {});
    });
  };
  CHECK(has(share([](Tensor& x, Tensor&) { return ContextParallelOptions{.buffers = {x}}; }),
            "[KB-C025] `seq_dims` must have the same number of elements as `buffers`."));
  CHECK(has(share([](Tensor& x, Tensor& other) {
              return ContextParallelOptions{
                  .buffers = {x}, .buffer_seq_dims = {1}, .no_restore_buffers = {other}};
            }),
            "[KB-C025] `no_restore_buffers` must be a subset of `buffers`."));
  CHECK(has(share([](Tensor& x, Tensor&) {
              return ContextParallelOptions{.buffers = {x}, .buffer_seq_dims = {1}};
            }),
            "[KB-C025] Sequence length (7) is not divided by the 2 chunks of 2 ranks in the order "
            "contiguous: [1, 7]"));
  CHECK(has(refusal_of([](RuntimeContext& torch, const distributed::DeviceMesh&) {
              experimental::set_rotate_method(torch, "ring");
            }),
            "[KB-C025] Context Parallel does not support using ring for kv shards rotation"));
}

// torch's head-tail balancer gives 8 tokens to 2 ranks so.
TEST_CASE("buffers have the rank's tokens in the body, and are whole again behind it",
          "[context_parallel]") {
  const Floats whole = {0, 1, 2, 3, 4, 5, 6, 7};
  struct Dealt {
    TokenOrder order;
    std::array<Floats, kRanks> tokens;
  };
  const std::array dealt = {Dealt{TokenOrder::contiguous, {{{0, 1, 2, 3}, {4, 5, 6, 7}}}},
                            Dealt{TokenOrder::head_tail, {{{0, 1, 6, 7}, {2, 3, 4, 5}}}},
                            Dealt{TokenOrder::striped, {{{0, 2, 4, 6}, {1, 3, 5, 7}}}}};
  for (const Dealt& each : dealt) {
    on_ranks([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
      Tensor x = torch.tensor(whole, {1, 8}, kOnOnePe);
      Tensor kept = torch.tensor(whole, {8, 1}, kOnOnePe);
      const auto rank = static_cast<std::size_t>(mesh.get_local_rank());
      experimental::context_parallel(mesh,
                                     {.buffers = {x, kept},
                                      .buffer_seq_dims = {1, 0},
                                      .no_restore_buffers = {kept},
                                      .order = each.order},
                                     [&] {
                                       CHECK(x.shape() == Shape{1, 4});
                                       CHECK(x.to_vector() == each.tokens.at(rank));
                                     });
      CHECK(x.to_vector() == whole);
      CHECK(kept.to_vector() == each.tokens.at(rank));
      const auto all = experimental::context_parallel_unshard(mesh, {kept}, {0}, each.order);
      CHECK(all.front().shape() == Shape{8, 1});
      CHECK(all.front().to_vector() == whole);
    });
  }
}

TEST_CASE("tokens that 2 P ranks do not divide are contiguous", "[context_parallel]") {
  on_ranks([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
    Tensor x = torch.tensor(Floats{0, 1, 2, 3, 4, 5}, {6}, kOnOnePe);
    const Floats own = mesh.get_local_rank() == 0 ? Floats{0, 1, 2} : Floats{3, 4, 5};
    experimental::context_parallel(mesh, {.buffers = {x}, .buffer_seq_dims = {0}},
                                   [&] { CHECK(x.to_vector() == own); });
  });
}

TEST_CASE("attention is a rank's own again behind the body", "[context_parallel]") {
  on_ranks([&](RuntimeContext& torch, const distributed::DeviceMesh& mesh) {
    const auto value = static_cast<float>(mesh.get_local_rank() + 1);
    const Tensor x = torch.full({2, 1}, value, kOnOnePe);
    const auto attend = [&] { return F::scaled_dot_product_attention(x * 0, x, x).to_vector(); };
    const Floats own = {value, value};
    CHECK(attend() == own);
    CHECK_THROWS_AS(experimental::context_parallel(mesh, {},
                                                   [&] {
                                                     CHECK(attend() == Floats{1.5F, 1.5F});
                                                     throw std::runtime_error("the body's");
                                                   }),
                    std::runtime_error);
    CHECK(attend() == own);
  });
}

}  // namespace
}  // namespace kernbench::test::context_parallel_errors_test
