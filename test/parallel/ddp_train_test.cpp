// A small MLP on several ranks, beside torch's real DistributedDataParallel
// (test/golden/ddp_train.txt, which says how weights and data are made).

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "runtime/optim/clip_grad.h"
#include "runtime/optim/optimizer.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::ddp_train_test {
namespace {

struct Step {
  double loss = 0;  // mean over ranks and samples
  double norm = 0;  // of the gradients, before they are clipped
  double sum = 0;   // of the weights after the step
  double squares = 0;
};

struct Run {
  int ranks = 0;
  std::string optimizer;  // as the file names it
  double clip = 1e30;
  int accumulation = 1;
  std::vector<Step> steps;  // torch's
};

std::string text_between(const std::string& line, std::string_view begin, std::string_view end) {
  const std::size_t from = line.find(begin) + begin.size();
  return line.substr(from, line.find(end, from) - from);
}

double number_after(const std::string& line, std::string_view word) {
  return std::stod(line.substr(line.find(word) + word.size()));
}

std::vector<Run> torch_runs() {
  std::ifstream file(std::filesystem::path(KERNBENCH_ROOT) / "test/golden/ddp_train.txt");
  std::vector<Run> runs;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## W=")) {
      Run& run = runs.emplace_back();
      run.ranks = static_cast<int>(number_after(line, "W="));
      run.optimizer = text_between(line, "  ", "  ");
      if (line.find("clip=None") == std::string::npos) run.clip = number_after(line, "clip=");
      run.accumulation = static_cast<int>(number_after(line, "accumulation="));
    } else if (line.find("mean loss") != std::string::npos) {
      runs.back().steps.push_back({number_after(line, "mean loss "),
                                   number_after(line, "grad norm "), number_after(line, "sum w "),
                                   number_after(line, "sum w^2 ")});
    }
  }
  return runs;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 std::vector<Tensor> parameters) {
  if (name == "adamw lr .01 wd .01") {
    return std::make_unique<optim::AdamW>(std::move(parameters),
                                          optim::AdamWOptions(0.01).weight_decay(0.01));
  }
  auto options = optim::SGDOptions(0.1);
  if (name == "sgd lr .1 momentum .9 wd .01") options.momentum(0.9).weight_decay(0.01);
  return std::make_unique<optim::SGD>(std::move(parameters), options);
}

// Elements ((a r + b t + c n + d i) mod m - middle) / divisor of four rows n.
struct Formula {
  int a, b, c, d, m, middle, divisor;
  std::int64_t columns;

  Tensor tensor(DataParallelWorld& world, int rank, int t) const {
    Floats elements;
    for (int n = 0; n < 4; ++n) {
      for (int i = 0; i < columns; ++i) {
        elements.push_back(static_cast<float>((a * rank + b * t + c * n + d * i) % m - middle) /
                           static_cast<float>(divisor));
      }
    }
    return world.tensor(elements, {4, columns});
  }
};
constexpr Formula kX{31, 13, 5, 3, 13, 6, 8, 8};
constexpr Formula kY{17, 7, 3, 5, 11, 5, 4, 4};

nn::Sequential make_mlp(RuntimeContext& torch) {
  const nn::Sequential mlp(nn::Linear(torch, 8, 16, kOnOnePe), nn::ReLU(),
                           nn::Linear(torch, 16, 16, kOnOnePe), nn::ReLU(),
                           nn::Linear(torch, 16, 4, kOnOnePe));
  fill_parameters(torch, *mlp);
  return mlp;
}

// The loss of several samples, whose mean gradient backward() leaves.
template <class Model>
double accumulate(DataParallelWorld& world, Model& ddp, int rank, int step, int count) {
  double loss = 0;
  const auto add = [&](int sample) {
    const int t = step * count + sample;
    const Tensor one =
        nn::functional::mse_loss(ddp(kX.tensor(world, rank, t)), kY.tensor(world, rank, t));
    (one / count).backward();
    loss += one.template item<double>() / count;
  };
  {
    const auto guard = ddp->no_sync();
    for (int sample = 0; sample + 1 < count; ++sample) add(sample);
  }
  add(count - 1);
  return loss;
}

std::vector<Step> train(DataParallelWorld& world, const Run& run) {
  std::vector<Step> steps(run.steps.size());
  world.spawn([&](int rank) {
    nn::parallel::DistributedDataParallel ddp(make_mlp(world.torch));
    const auto optimizer = make_optimizer(run.optimizer, ddp->parameters());
    for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
      optimizer->zero_grad();
      Step& step = steps[static_cast<std::size_t>(i)];
      step.loss += accumulate(world, ddp, rank, i, run.accumulation) / run.ranks;
      const double norm = nn::utils::clip_grad_norm_(ddp->parameters(), run.clip);
      optimizer->step();
      if (rank != 0) continue;
      step.norm = norm;
      for (const Tensor& parameter : ddp->parameters()) {
        for (const double w : parameter.to_vector()) {
          step.sum += w;
          step.squares += w * w;
        }
      }
    }
  });
  return steps;
}

TEST_CASE("an MLP on several ranks learns as torch's DistributedDataParallel does", "[ddp]") {
  const std::vector<Run> runs = torch_runs();
  REQUIRE(runs.size() == 3);
  const auto& run = runs[GENERATE(0U, 1U, 2U)];
  const char* const backend = GENERATE("local", "ahbm");
  const bool blocks = GENERATE(true, false);
  CAPTURE(run.optimizer, run.accumulation, backend, blocks);
  DataParallelWorld world(run.ranks, backend, {.launch_blocking = blocks});
  const std::vector<Step> steps = train(world, run);
  REQUIRE(steps.size() == 6);
  const auto close = [](double expected) { return Approx(expected).epsilon(2e-6); };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    CHECK(steps[i].loss == close(run.steps[i].loss));
    CHECK(steps[i].norm == close(run.steps[i].norm));
    CHECK(steps[i].sum == close(run.steps[i].sum));
    CHECK(steps[i].squares == close(run.steps[i].squares));
  }
}

}  // namespace
}  // namespace kernbench::test::ddp_train_test
