// Tests that ranks which share a sequence compute the attention of the whole, and its gradients.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "test/parallel/context_parallel_world.h"

namespace kernbench::test::context_parallel_test {
namespace {

namespace F = nn::functional;

// The ways in which keys, or heads, move.
struct Method {
  std::string_view name;
  bool is_ulysses = false;
};
constexpr std::array kMethods = {Method{"alltoall"}, Method{"allgather"}, Method{"ulysses", true}};

struct Shared {
  AttentionSize size = {};
  int ranks = 2;
  TokenOrder order = TokenOrder::head_tail;
  Method method = kMethods[0];

  // Ulysses has its tokens in their order.
  TokenOrder taken() const { return method.is_ulysses ? TokenOrder::contiguous : order; }
};

// A rank's output and gradients, which are of its tokens.
struct RankResult {
  Floats y;
  Floats dq;
  Floats dk;
  Floats dv;
};

Tensor leaf(RuntimeContext& torch, const Tensor& part, const TensorOptions& options) {
  Tensor own = torch.tensor(part.to_vector(), part.shape(), options);
  own.requires_grad_();
  return own;
}

void share(const distributed::DeviceMesh& mesh, const Shared& shared,
           const experimental::ContextParallelOptions& options, const std::function<void()>& body) {
  if (shared.method.is_ulysses) {
    experimental::ulysses(mesh, options, body);
  } else {
    experimental::context_parallel(mesh, options, body);
  }
}

// Runs forward and backward on each rank.
std::vector<RankResult> run(const Shared& shared, const TensorOptions& options = kOnOnePe) {
  std::vector<RankResult> results(static_cast<std::size_t>(shared.ranks));
  DataParallelWorld world(shared.ranks);
  const AttentionData data(shared.size);
  world.spawn([&](int rank) {
    RuntimeContext& torch = world.torch;
    const auto mesh = torch.distributed.init_device_mesh("ahbm", {shared.ranks}, {"cp"});
    if (!shared.method.is_ulysses) experimental::set_rotate_method(torch, shared.method.name);
    const auto whole = [&](const Floats& elements, const Shape& shape) {
      return torch.tensor(elements, shape, options);
    };
    Tensor q = whole(data.q, shared.size.query());
    Tensor k = whole(data.k, shared.size.key());
    Tensor v = whole(data.v, shared.size.key());
    Tensor dy = whole(data.dy, shared.size.query());
    share(mesh["cp"], shared,
          {.buffers = {q, k, v, dy}, .buffer_seq_dims = {2, 2, 2, 2}, .order = shared.order}, [&] {
            const Tensor own_q = leaf(torch, q, options);
            const Tensor own_k = leaf(torch, k, options);
            const Tensor own_v = leaf(torch, v, options);
            const Tensor y = F::scaled_dot_product_attention(
                own_q, own_k, own_v,
                {.is_causal = shared.size.is_causal,
                 .enable_gqa = shared.size.heads != shared.size.key_heads});
            y.backward(dy);
            results[static_cast<std::size_t>(rank)] = {y.to_vector(), own_q.grad().to_vector(),
                                                       own_k.grad().to_vector(),
                                                       own_v.grad().to_vector()};
          });
  });
  return results;
}

// Returns the largest difference of a rank's elements and those of the whole.
double largest_difference(const Shared& shared, int rank, const Floats& own,
                          const std::vector<double>& whole) {
  const AttentionSize& size = shared.size;
  const auto positions = positions_of(shared.taken(), shared.ranks, rank, size.seq);
  const std::int64_t rows = std::ssize(positions);
  double largest = 0;
  for (std::int64_t i = 0; i < std::ssize(own); ++i) {
    const std::int64_t row = i / size.depth;
    const std::int64_t at =
        (row / rows * size.seq + positions[static_cast<std::size_t>(row % rows)]) * size.depth +
        i % size.depth;
    const double difference =
        static_cast<double>(own[static_cast<std::size_t>(i)]) - whole[static_cast<std::size_t>(at)];
    // NaN is no number, and so the largest.
    largest = std::abs(difference) <= largest ? largest : std::abs(difference);
  }
  return largest;
}

void check_equals_whole(const Shared& shared, const TensorOptions& options = kOnOnePe) {
  const WholeAttention whole = attend_whole(shared.size, AttentionData(shared.size));
  const std::vector<RankResult> results = run(shared, options);
  for (int rank = 0; rank < shared.ranks; ++rank) {
    const RankResult& own = results[static_cast<std::size_t>(rank)];
    CAPTURE(rank, shared.ranks, name_of(shared.taken()), shared.method.name, shared.size.is_causal,
            shared.size.key_heads);
    CHECK(largest_difference(shared, rank, own.y, whole.y) <= 2e-6);
    CHECK(largest_difference(shared, rank, own.dq, whole.dq) <= 2e-6);
    CHECK(largest_difference(shared, rank, own.dk, whole.dk) <= 2e-6);
    CHECK(largest_difference(shared, rank, own.dv, whole.dv) <= 2e-6);
  }
}

TEST_CASE("ranks that share a sequence compute what one computes of the whole",
          "[context_parallel]") {
  for (const int ranks : {1, 2, 4}) {
    for (const Method& method : kMethods) {
      for (const TokenOrder order : experimental::kTokenOrders) {
        if (method.is_ulysses && (order != TokenOrder::contiguous || ranks > 2)) continue;
        for (const bool is_causal : {false, true}) {
          check_equals_whole(
              {.size = {.is_causal = is_causal}, .ranks = ranks, .order = order, .method = method});
        }
      }
    }
  }
}

TEST_CASE("heads of the query share those of key and value, in a batch", "[context_parallel]") {
  for (const Method& method : kMethods) {
    check_equals_whole(
        {.size = {.batch = 3, .heads = 4, .key_heads = 2, .seq = 8}, .ranks = 2, .method = method});
  }
}

void check_near(const Floats& own, const std::vector<double>& whole) {
  REQUIRE(own.size() == whole.size());
  double largest = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double difference = std::abs(static_cast<double>(own[i]) - whole[i]);
    largest = difference <= largest ? largest : difference;
  }
  CHECK(largest <= 2e-6);
}

// Runs varlen_attn() and its gradients, of tokens that PEs share.
void check_packed(const Shared& shared, const UsedPes& pes) {
  const AttentionSize& size = shared.size;
  const AttentionData data(size);
  const WholeAttention whole = attend_whole(size, data);
  DataParallelWorld world(shared.ranks, "ahbm", {}, pes.cubes);
  world.spawn([&](int rank) {
    RuntimeContext& torch = world.torch;
    const auto mesh = torch.distributed.init_device_mesh("ahbm", {shared.ranks}, {"cp"});
    if (!shared.method.is_ulysses) experimental::set_rotate_method(torch, shared.method.name);
    const auto positions = positions_of(shared.taken(), shared.ranks, rank, size.seq);
    const std::int64_t n = std::ssize(positions);
    // The rank's rows of [heads, s, d], as [n, heads, d].
    const auto packed = [&](const auto& from) {
      const std::int64_t heads = std::ssize(from) / size.seq / size.depth;
      Floats own;
      for (const std::int64_t position : positions) {
        for (std::int64_t i = 0; i < heads * size.depth; ++i) {
          const std::int64_t row = i / size.depth * size.seq + position;
          own.push_back(static_cast<float>(
              from[static_cast<std::size_t>(row * size.depth + i % size.depth)]));
        }
      }
      return torch.tensor(own, {n, heads, size.depth}, {.dp = pes.rows()});
    };
    const auto leaf_of = [&](const Floats& elements) {
      Tensor x = packed(elements);
      x.requires_grad_();
      return x;
    };
    const Tensor q = leaf_of(data.q);
    const Tensor k = leaf_of(data.k);
    const Tensor v = leaf_of(data.v);
    const Tensor ends = RuntimeContext::tensor(std::vector<std::int64_t>{0, n}, {2});
    Tensor y;
    share(mesh["cp"], shared, {.order = shared.order}, [&] {
      y = nn::attention::varlen_attn(
          q, k, v, ends, ends, n, n,
          {.is_causal = size.is_causal, .enable_gqa = size.heads != size.key_heads});
    });
    y.backward(packed(data.dy));
    const auto check = [&](const Tensor& own, const std::vector<double>& of_whole) {
      const Floats expected = packed(of_whole).to_vector();
      CAPTURE(rank, shared.method.name, name_of(shared.taken()), pes.cubes, size.heads);
      check_near(own.to_vector(), {expected.begin(), expected.end()});
    };
    check(y, whole.y);
    check(q.grad(), whole.dq);
    check(k.grad(), whole.dk);
    check(v.grad(), whole.dv);
  });
}

// Backward, heads fill teams of PEs, or do not (ADR-0131).
TEST_CASE("PEs that share tokens compute the same", "[context_parallel]") {
  for (const Method& method : kMethods) {
    for (const TokenOrder order : experimental::kTokenOrders) {
      for (const UsedPes& pes : {UsedPes{1, 2}, UsedPes{2, 2}}) {
        for (const AttentionSize& size : {AttentionSize{.heads = 4, .key_heads = 4, .seq = 64},
                                          AttentionSize{.heads = 4, .key_heads = 2, .seq = 16},
                                          AttentionSize{.heads = 5, .key_heads = 5, .seq = 16}}) {
          if (method.is_ulysses && (order != TokenOrder::contiguous || size.heads == 5)) continue;
          check_packed({.size = size, .order = order, .method = method}, pes);
        }
      }
    }
  }
}

TEST_CASE("PEs that share heads compute the same", "[context_parallel]") {
  const AttentionSize size{.heads = 4, .key_heads = 2};
  const AttentionData data(size);
  const WholeAttention whole = attend_whole(size, data);
  DataParallelWorld world(2);
  world.spawn([&](int) {
    const auto mesh = world.torch.distributed.init_device_mesh("ahbm", {2}, {"cp"});
    const auto make = [&](const Floats& elements, std::int64_t heads) {
      return world.tensor(elements, {heads, size.seq, size.depth}, UsedPes{1, 2}.rows());
    };
    Tensor q = make(data.q, size.heads);
    Tensor k = make(data.k, size.key_heads);
    Tensor v = make(data.v, size.key_heads);
    Tensor y;
    experimental::context_parallel(mesh, {.buffers = {q, k, v}, .buffer_seq_dims = {1, 1, 1}}, [&] {
      y = F::scaled_dot_product_attention(q, k, v, {.is_causal = true, .enable_gqa = true});
    });
    const Tensor all = experimental::context_parallel_unshard(mesh, {y}, {1}).front();
    check_near(all.to_vector(), whole.y);
  });
}

// Products take the weights in bf16, and the output is rounded: half a unit in the last place each.
TEST_CASE("outputs of bf16 are added up in f32", "[context_parallel]") {
  const AttentionSize size;
  const WholeAttention whole = attend_whole(size, AttentionData(size));
  for (const Method& method : kMethods) {
    const Shared shared{.ranks = 2, .method = method};
    const auto results = run(shared, {.dtype = DType::bf16, .dp = DPPolicy::on_one_pe()});
    for (int rank = 0; rank < shared.ranks; ++rank) {
      const RankResult& own = results[static_cast<std::size_t>(rank)];
      CAPTURE(rank, method.name);
      CHECK(largest_difference(shared, rank, own.y, whole.y) <= 30.0 / 64 / 256);
    }
  }
}

TEST_CASE("replicas each have ranks that share their sequences", "[context_parallel]") {
  const AttentionSize size;
  const AttentionData data(size);
  const WholeAttention whole = attend_whole(size, data);
  DataParallelWorld world(4);
  world.spawn([&](int) {
    const auto mesh = world.torch.distributed.init_device_mesh("ahbm", {2, 2}, {"dp", "cp"});
    Tensor q = world.tensor(data.q, size.query());
    Tensor k = world.tensor(data.k, size.key());
    Tensor v = world.tensor(data.v, size.key());
    Tensor y;
    experimental::context_parallel(
        mesh["cp"], {.buffers = {q, k, v}, .buffer_seq_dims = {2, 2, 2}},
        [&] { y = F::scaled_dot_product_attention(q, k, v, {.is_causal = true}); });
    const Tensor all = experimental::context_parallel_unshard(mesh["cp"], {y}, {2}).front();
    check_near(all.to_vector(), whole.y);
  });
}

// Goldens: sums over a rank's elements and over their squares, of torch 1.13.1 in one
// process.  Ring and whole differ there by 4.5e-8 at most in an element.
struct GoldenSums {
  int ranks;
  TokenOrder order;
  int rank;
  double sum;
  double squares;
};

TEST_CASE("sums of each rank are those of torch", "[context_parallel][golden]") {
  constexpr auto kContiguous = TokenOrder::contiguous;
  constexpr auto kHeadTail = TokenOrder::head_tail;
  constexpr std::array kGoldens = {GoldenSums{2, kContiguous, 0, 0.0251399875, 2.02280569},
                                   GoldenSums{2, kContiguous, 1, 0.127001852, 0.135221764},
                                   GoldenSums{2, kHeadTail, 0, -0.0358384252, 1.79755521},
                                   GoldenSums{2, kHeadTail, 1, 0.187980294, 0.360472023},
                                   GoldenSums{4, kContiguous, 0, -0.0719206333, 1.74959683},
                                   GoldenSums{4, kContiguous, 1, 0.0970605016, 0.273209095},
                                   GoldenSums{4, kContiguous, 2, 0.0909196883, 0.0872629285},
                                   GoldenSums{4, kContiguous, 3, 0.0360821635, 0.047958862},
                                   GoldenSums{4, kHeadTail, 0, -0.422910452, 1.54663467},
                                   GoldenSums{4, kHeadTail, 1, 0.387071878, 0.250920862},
                                   GoldenSums{4, kHeadTail, 2, 0.31344229, 0.204960421},
                                   GoldenSums{4, kHeadTail, 3, -0.125462011, 0.155511618}};
  for (const GoldenSums& golden : kGoldens) {
    const auto results = run({.ranks = golden.ranks, .order = golden.order});
    const Floats& y = results[static_cast<std::size_t>(golden.rank)].y;
    double sum = 0;
    double squares = 0;
    for (const float element : y) {
      sum += static_cast<double>(element);
      squares += static_cast<double>(element) * static_cast<double>(element);
    }
    CAPTURE(golden.ranks, golden.rank, name_of(golden.order));
    const double most = static_cast<double>(y.size()) * 4.5e-8;
    CHECK(std::abs(sum - golden.sum) <= most);
    CHECK(std::abs(squares - golden.squares) <= most);
  }
}

TEST_CASE("gradients of all ranks add up to those of torch", "[context_parallel][golden]") {
  for (const Method& method : kMethods) {
    const auto results = run({.ranks = 2, .method = method});
    const auto check = [&](Floats RankResult::*of, double sum, double squares) {
      for (const RankResult& own : results) {
        for (const float element : own.*of) {
          sum -= static_cast<double>(element);
          squares -= static_cast<double>(element) * static_cast<double>(element);
        }
      }
      CAPTURE(method.name);
      CHECK(std::abs(sum) <= 256 * 4.5e-8);
      CHECK(std::abs(squares) <= 256 * 4.5e-8);
    };
    check(&RankResult::dq, -0.0559001938, 0.0215423573);
    check(&RankResult::dk, 1.39698386e-08, 0.017451996);
    check(&RankResult::dv, -0.87500006, 2.07208395);
  }
}

}  // namespace
}  // namespace kernbench::test::context_parallel_test
