// Tests outputs of forward() that the loss does not use, as in torch 1.13.1 (its tests
// test_output_unused_in_loss_tuple_module and _dict_module).

#include <map>
#include <optional>
#include <random>
#include <tuple>

#include "runtime/functional/shape_operators.h"
#include "runtime/nn/module.h"
#include "runtime/optim/optimizer.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::unused_outputs_test {
namespace {

using nn::parallel::DistributedDataParallel;
using nn::parallel::DistributedDataParallelOptions;

// a x and b x.
struct TwoImpl : nn::Module {
  explicit TwoImpl(const RuntimeContext& torch)
      : a(register_parameter("a", torch.ones({1}, kOnOnePe))),
        b(register_parameter("b", torch.ones({1}, kOnOnePe))) {}
  Tensor a, b;
};

struct PairOfTwoImpl : TwoImpl {
  using TwoImpl::TwoImpl;
  std::pair<Tensor, Tensor> forward(const Tensor& x) const { return {a * x, b * x}; }
  static Tensor first(const std::pair<Tensor, Tensor>& y) { return y.first; }
};
KERNBENCH_MODULE(PairOfTwo);

struct DictOfTwoImpl : TwoImpl {
  using TwoImpl::TwoImpl;
  std::map<std::string, Tensor> forward(const Tensor& x) const {
    return {{"a", a * x}, {"b", b * x}};
  }
  static Tensor first(const std::map<std::string, Tensor>& y) { return y.at("a"); }
};
KERNBENCH_MODULE(DictOfTwo);

struct NestedTwoImpl : TwoImpl {
  using Output =
      std::tuple<int, std::vector<std::pair<std::string, Tensor>>, std::optional<nn::StateDict>>;
  using TwoImpl::TwoImpl;
  Output forward(const Tensor& x) const {
    nn::StateDict rest;
    rest.insert("b", b * x);
    return {7, {{"a", a * x}}, rest};
  }
  static Tensor first(const Output& y) {
    CHECK(std::get<0>(y) == 7);
    return std::get<1>(y).front().second;
  }
};
KERNBENCH_MODULE(NestedTwo);

TEMPLATE_TEST_CASE("an output that no loss uses has no gradient, and the others are reduced",
                   "[ddp]", PairOfTwo, DictOfTwo, NestedTwo) {
  DataParallelWorld world(2);
  const bool views = GENERATE(false, true);
  world.spawn([&](int rank) {
    const TestType two(world.torch);
    DistributedDataParallel ddp(two,
                                {.find_unused_parameters = true, .gradient_as_bucket_view = views});
    for (int i = 0; i < 3; ++i) {
      ddp->zero_grad();
      const auto y = ddp(world.tensor({static_cast<float>(rank + 1)}, {1}));
      TestType::ContainedType::first(y).backward();
      CHECK(two->a.grad().item() == 1.5F);
      CHECK_FALSE(two->b.grad().defined());
    }
  });
}

TEST_CASE("outputs that other ranks use are reduced with zeros", "[ddp]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const PairOfTwo two(world.torch);
    DistributedDataParallel ddp(two, {.find_unused_parameters = true});
    for (int i = 1; i < 3; ++i) {  // gradients accumulate
      const auto [y, z] = ddp(world.tensor({static_cast<float>(rank + 1)}, {1}));
      (rank == 0 ? y : z).backward();
      CHECK(two->a.grad().item() == 0.5F * static_cast<float>(i));
      CHECK(two->b.grad().item() == 1.0F * static_cast<float>(i));
    }
  });
}

TEST_CASE("one backward() uses all outputs of a pass", "[ddp]") {
  DataParallelWorld world(2);
  const bool is_static = GENERATE(false, true);
  const std::string text = world.refusal([&](int) {
    DistributedDataParallel ddp(PairOfTwo(world.torch),
                                {.find_unused_parameters = !is_static, .static_graph = is_static});
    const auto [y, z] = ddp(world.tensor({1}, {1}));
    y.backward();
    z.backward();
  });
  CHECK_THAT(text, Says("KB-A004", "Trying to backward through the graph a second time"));
}

TEST_CASE("the gradient of an output alone may be asked for before backward()", "[ddp]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const PairOfTwo two(world.torch);
    DistributedDataParallel ddp(two, {.find_unused_parameters = true});
    const Tensor x = world.tensor({static_cast<float>(rank + 1)}, {1}).requires_grad_();
    const auto [y, z] = ddp(x);
    CHECK(autograd::grad({y}, {x}, {}, {.retain_graph = true}).front().item() == 1);
    (y + z).backward();
    CHECK(two->a.grad().item() == 1.5F);
    CHECK(two->b.grad().item() == 1.5F);
  });
}

// Torch leaves the second pass's gradients as they are, and throws in the third.
TEST_CASE("a static graph's loss uses all outputs", "[ddp]") {
  DataParallelWorld world(2);
  Floats gradients;
  const std::string text = world.refusal([&](int rank) {
    const PairOfTwo two(world.torch);
    DistributedDataParallel ddp(two, {.static_graph = true});
    for (int i = 0; i < 3; ++i) {
      ddp->zero_grad();
      ddp(world.tensor({static_cast<float>(rank + 1)}, {1})).first.backward();
      gradients.push_back(two->b.grad().defined() ? -1 : two->a.grad().item());
    }
  });
  CHECK_THAT(text, Says("KB-A016", "Expected to have finished reduction",
                        "this is not compatible with static_graph set to True.",
                        "Parameters which did not receive grad for rank"));
  REQUIRE_FALSE(gradients.empty());  // the other rank may have been unwound before
  CHECK(gradients.front() == 1.5F);
}

// A trunk t, heads h and outputs h t x, of which random ranks use random ones in random steps.
struct HeadsImpl : nn::Module {
  HeadsImpl(const RuntimeContext& torch, int count)
      : trunk(register_parameter("trunk", torch.ones({1}, kOnOnePe))) {
    for (int i = 0; i < count; ++i) {
      heads.push_back(register_parameter("head" + std::to_string(i), torch.ones({1}, kOnOnePe)));
    }
  }
  std::vector<Tensor> forward(const Tensor& x) const {
    const Tensor y = trunk * x;
    std::vector<Tensor> all;
    for (const Tensor& head : heads) all.push_back(head * y);
    return all;
  }
  Tensor trunk;
  std::vector<Tensor> heads;
};
KERNBENCH_MODULE(Heads);

struct HeadsProgram {
  explicit HeadsProgram(unsigned seed) : random(seed) {
    ranks = 2 + below(2);
    options = {.bucket_cap_mb = below(2) == 0 ? 0.0 : 25.0,
               .find_unused_parameters = true,
               .gradient_as_bucket_view = below(2) == 0};
    backend = below(2) == 0 ? "local" : "ahbm";
    count = 1 + below(4);
    for (int step = 0; step < 3; ++step) {
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<int> factors;  // of the outputs in the loss; 0: not used
        for (int head = 0; head < count; ++head) factors.push_back(below(3));
        factors[static_cast<std::size_t>(below(count))] = 1;
        losses.push_back(std::move(factors));
      }
    }
  }
  int below(int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); }
  const std::vector<int>& loss(int step, int rank) const {
    return losses[static_cast<std::size_t>(step * ranks + rank)];
  }

  std::mt19937 random;
  int ranks = 2;
  int count = 1;
  const char* backend = "local";
  DistributedDataParallelOptions options;
  std::vector<std::vector<int>> losses;
};

constexpr double kRate = 0.0625;

// The parameters after the steps, in one process: the trunk's, then the heads'.
std::vector<double> trained_in_one_process(const HeadsProgram& program) {
  std::vector<double> weights(static_cast<std::size_t>(program.count) + 1, 1.0);
  for (int step = 0; step < 3; ++step) {
    std::vector<double> gradients(weights.size());
    for (int rank = 0; rank < program.ranks; ++rank) {
      const std::vector<int>& factors = program.loss(step, rank);
      for (std::size_t i = 0; i < factors.size(); ++i) {
        const double scale = static_cast<double>(factors[i]) * (rank + 1) / program.ranks;
        gradients[0] += scale * weights[i + 1];
        gradients[i + 1] += scale * weights[0];
      }
    }
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= kRate * gradients[i];
  }
  return weights;
}

TEST_CASE("random heads learn what one process learns", "[ddp][random]") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const HeadsProgram program(seed);
    const std::vector<double> wanted = trained_in_one_process(program);
    DataParallelWorld world(program.ranks, program.backend);
    world.spawn([&](int rank) {
      const Heads heads(world.torch, program.count);
      DistributedDataParallel ddp(heads, program.options);
      optim::SGD optimizer(ddp->parameters(), kRate);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        const auto outputs = ddp(world.tensor({static_cast<float>(rank + 1)}, {1}));
        Tensor loss;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          const int factor = program.loss(step, rank)[i];
          if (factor == 0) continue;
          loss = loss.defined() ? loss + outputs[i] * factor : outputs[i] * factor;
        }
        loss.backward();
        optimizer.step();
      }
      const auto parameters = heads->parameters();
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        CHECK(parameters[i].item() == Approx(wanted[i]).margin(1e-6));
      }
    });
  }
}

}  // namespace
}  // namespace kernbench::test::unused_outputs_test
