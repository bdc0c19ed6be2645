// Tests that ranks which share experts compute what one rank computes of all, and its gradients.

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "test/parallel/expert_parallel_world.h"

namespace kernbench::test::expert_parallel_test {
namespace {

using moe::DropPolicy;

// How ranks get one gradient of the router: left apart; the sum, by all_reduce; or the mean, by
// DDP, beside experts' gradients that are divided by the number of ranks.
enum class Reduction : std::uint8_t { none, sum, mean };

struct Run {
  int ranks = 1;
  UsedPes pes = {};
  std::optional<double> capacity_factor = {};
  bool pad = false;
  DropPolicy policy = DropPolicy::probs;
  bool pre_softmax = true;
  MixtureSize size = {};
  bool is_reversed = false;
  Reduction reduction = Reduction::none;

  MixtureData data() const {
    MixtureData numbers(size);
    if (is_reversed) numbers.reverse_experts(size);
    return numbers;
  }
  std::int64_t tokens() const { return size.tokens / ranks; }
  std::int64_t capacity() const {
    if (!capacity_factor) return 0;
    return moe::expert_capacity(tokens() * size.top_k, size.experts, *capacity_factor);
  }
  moe::MoEOptions options() const {
    return {.dim = size.dim,
            .hidden_dim = size.hidden,
            .num_experts = size.experts,
            .is_gated = false,
            .router = {.top_k = size.top_k, .pre_softmax = pre_softmax, .route_norm = pre_softmax},
            .dispatch = {
                .capacity_factor = capacity_factor, .pad_to_capacity = pad, .drop_policy = policy}};
  }
};

void set_parameters(const nn::Module& layer, const MixtureSize& size, const MixtureData& data) {
  for (const auto& item : layer.named_parameters()) {
    const std::string& name = item.key();
    const Tensor parameter = item.value().detach();
    if (name == "router.weight") {
      parameter.copy_(RuntimeContext::tensor(data.router, parameter.shape()));
      continue;
    }
    const std::int64_t expert = std::stoll(name.substr(std::string("experts.").size()));
    const Floats& whole = name.ends_with("w1") ? data.w1 : data.w2;
    parameter.copy_(RuntimeContext::tensor(part_of(whole, expert, 1, size.hidden * size.dim),
                                           parameter.shape()));
  }
}

void add(std::vector<double>& to, std::int64_t first, const Floats& from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[static_cast<std::size_t>(first) + i] += static_cast<double>(from[i]);
  }
}

// Ignores the experts.  It reduces in the backward passes that it lives to see.
nn::parallel::DistributedDataParallel<nn::MoE> in_ddp(const nn::MoE& layer) {
  std::vector<std::string> experts;
  for (const auto& item : layer->named_parameters()) {
    if (item.key().starts_with("experts.")) experts.push_back(item.key());
  }
  nn::parallel::_set_params_and_buffers_to_ignore_for_model(layer, experts);
  return nn::parallel::DistributedDataParallel(layer);
}

void reduce_gradients(RuntimeContext& torch, const nn::MoE& layer, const Run& of) {
  for (const auto& item : layer->named_parameters()) {
    const bool is_router = item.key() == "router.weight";
    const Tensor gradient = item.value().grad();
    if (of.reduction == Reduction::sum && is_router) torch.distributed.all_reduce(gradient);
    if (of.reduction == Reduction::mean && !is_router) gradient.div_(of.ranks);
  }
}

// Returns the results of all ranks, put together: of gradients that were reduced, those of rank 0.
Mixture run(const Run& of) {
  const MixtureData data = of.data();
  Mixture all = WholeMixture(of.size, data, 1, 0).result();
  std::ranges::fill(all.loads, 0);
  for (auto* of_all : {&all.y, &all.dx, &all.drouter, &all.dw1, &all.dw2}) {
    std::ranges::fill(*of_all, 0);
  }
  all.kept = 0;
  DataParallelWorld world(of.ranks, "ahbm", {}, of.pes.cubes);
  world.spawn([&](int rank) {
    RuntimeContext& torch = world.torch;
    const nn::MoE layer(torch, of.options(), of.pes.weights());
    set_parameters(*layer, of.size, data);
    const std::int64_t first = rank * of.tokens();
    const auto rows = [&](const Floats& whole) {
      return torch.tensor(part_of(whole, first, of.tokens(), of.size.dim),
                          {of.tokens(), of.size.dim}, {.dp = of.pes.rows()});
    };
    const Tensor x = rows(data.x);
    x.requires_grad_();
    std::optional<nn::parallel::DistributedDataParallel<nn::MoE>> ddp;
    if (of.reduction == Reduction::mean) ddp = in_ddp(layer);
    const Tensor y = ddp ? (*ddp)(x) : layer(x);
    y.backward(rows(data.dy));
    reduce_gradients(torch, layer, of);
    add(all.y, first * of.size.dim, y.to_vector());
    add(all.dx, first * of.size.dim, x.grad().to_vector());
    for (const auto& item : layer->named_parameters()) {
      const Floats gradient = item.value().grad().to_vector();
      if (item.key() == "router.weight") {
        if (of.reduction == Reduction::none || rank == 0) add(all.drouter, 0, gradient);
        continue;
      }
      const std::int64_t expert = std::stoll(item.key().substr(std::string("experts.").size()));
      add(item.key().ends_with("w1") ? all.dw1 : all.dw2, expert * of.size.hidden * of.size.dim,
          gradient);
    }
    all.kept += layer->last_sizes().kept;
    const auto counts = layer->dispatch(x.detach()).num_recv_tokens_per_expert_list;
    std::ranges::copy(counts, all.loads.begin() + rank * std::ssize(counts));
  });
  return all;
}

double sum_of(const std::vector<double>& elements) {
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}
double squares_of(const std::vector<double>& elements) {
  return std::inner_product(elements.begin(), elements.end(), elements.begin(), 0.0);
}

// The sums are those of real torch 1.13.1, in one process.  A token's four logits are equal, and
// torch gave it to the last two experts, where the first two are taken here: so experts count from
// the last one.
struct Golden {
  std::optional<double> capacity_factor = {};
  std::int64_t kept = 64;
  double y = 0;
  double y2 = 0;
  double dx2 = 0;
  double drouter2 = 0;
  double dw12 = 0;
  double dw22 = 0;
};
constexpr std::array kGoldens = {
    Golden{{}, 64, -0.499629021, 2.1843996, 2.38317728, 0.00412657345, 2.18799829, 0.694453001},
    Golden{0.75, 48, -0.29975915, 1.24063325, 1.8058697, 0.00389467599, 1.33442438, 0.415147454},
    Golden{0.5, 32, -0.282961369, 0.546052277, 1.25289142, 0.00405873032, 1.10894573, 0.353278548}};

void check_golden(Run of, const Golden& golden) {
  of.is_reversed = true;
  const Mixture mixture = run(of);
  CAPTURE(of.ranks, of.pes.cubes, of.pes.pes, of.pre_softmax, of.pad, golden.kept);
  std::vector<std::int64_t> loads = {15, 15, 17, 17};
  for (std::int64_t& load : loads) load = of.capacity() > 0 ? of.capacity() : load;
  CHECK(mixture.loads == loads);
  CHECK(mixture.kept == golden.kept);
  const auto is = [](double wanted) {
    return Catch::Detail::Approx(wanted).epsilon(0).margin(2e-6);
  };
  CHECK(sum_of(mixture.y) == is(golden.y));
  CHECK(squares_of(mixture.y) == is(golden.y2));
  CHECK(squares_of(mixture.dx) == is(golden.dx2));
  CHECK(squares_of(mixture.drouter) == is(golden.drouter2));
  CHECK(squares_of(mixture.dw1) == is(golden.dw12));
  CHECK(squares_of(mixture.dw2) == is(golden.dw22));
}

TEST_CASE("one rank computes torch's mixture, with any capacity", "[expert_parallel]") {
  for (const Golden& golden : kGoldens) {
    for (const bool pre_softmax : {true, false}) {
      check_golden({.capacity_factor = golden.capacity_factor, .pre_softmax = pre_softmax}, golden);
    }
    check_golden({.pes = {2, 2}, .capacity_factor = golden.capacity_factor}, golden);
    if (!golden.capacity_factor) continue;
    check_golden({.capacity_factor = golden.capacity_factor, .pad = true}, golden);
  }
}

TEST_CASE("ranks that share experts compute torch's mixture", "[expert_parallel]") {
  for (const int ranks : {2, 4}) {
    check_golden({.ranks = ranks}, kGoldens[0]);
    check_golden({.ranks = ranks, .pes = {2, 2}}, kGoldens[0]);
  }
}

// Each difference is to be small, which no NaN is.
void check_near(const std::vector<double>& own, const std::vector<double>& whole) {
  REQUIRE(own.size() == whole.size());
  std::int64_t apart = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    apart += std::abs(own[i] - whole[i]) <= 2e-6 ? 0 : 1;
  }
  CHECK(apart == 0);
}

void check_equals_whole(const Run& of) {
  const MixtureData data = of.data();
  Mixture whole = WholeMixture(of.size, data, of.ranks, of.capacity(), of.policy).result();
  if (of.reduction == Reduction::mean) {
    for (auto* of_loss : {&whole.drouter, &whole.dw1, &whole.dw2}) {
      for (double& gradient : *of_loss) gradient /= of.ranks;
    }
  }
  const Mixture own = run(of);
  CAPTURE(of.ranks, of.pes.cubes, of.capacity(), of.pad, name_of(of.policy),
          static_cast<int>(of.reduction));
  CHECK(own.kept == whole.kept);
  check_near(own.y, whole.y);
  check_near(own.dx, whole.dx);
  check_near(own.drouter, whole.drouter);
  check_near(own.dw1, whole.dw1);
  check_near(own.dw2, whole.dw2);
}

TEST_CASE("each rank's tokens are dropped by its own capacity", "[expert_parallel]") {
  for (const int ranks : {1, 2, 4}) {
    for (const DropPolicy policy : moe::kDropPolicies) {
      for (const bool pad : {false, true}) {
        check_equals_whole({.ranks = ranks, .capacity_factor = 0.75, .pad = pad, .policy = policy});
      }
    }
    check_equals_whole({.ranks = ranks, .pes = {2, 2}, .capacity_factor = 0.5, .pad = true});
  }
}

// Router and experts have gradients of one loss: the sum of the ranks' losses, or their mean.
TEST_CASE("data parallel training ignores the experts", "[expert_parallel]") {
  for (const Reduction reduction : {Reduction::sum, Reduction::mean}) {
    check_equals_whole({.ranks = 2, .reduction = reduction});
    check_equals_whole({.ranks = 4, .pes = {2, 2}, .reduction = reduction});
  }
}

TEST_CASE("more experts, choices and tokens than PEs divide", "[expert_parallel]") {
  const MixtureSize size{.tokens = 52, .dim = 12, .experts = 16, .top_k = 5, .hidden = 20};
  for (const int ranks : {1, 2, 4}) {
    check_equals_whole({.ranks = ranks, .pes = {2, 2}, .size = size});
    check_equals_whole({.ranks = ranks, .capacity_factor = 1.1, .size = size});
  }
}

}  // namespace
}  // namespace kernbench::test::expert_parallel_test
