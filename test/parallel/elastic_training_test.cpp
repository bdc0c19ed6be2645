// Training in which a rank dies: the others shrink the group, wrap the module anew, and go on.

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "runtime/optim/optimizer.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/faults/fault.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::elastic_training_test {
namespace {

using Ddp = nn::parallel::DistributedDataParallel<nn::Sequential>;

constexpr int kRanks = 4;
constexpr int kSteps = 12;
constexpr int kDead = 2;

Topology machine(const std::string& fault) {
  Topology topology = round_topology(SipTopology::ring_1d, kRanks);
  if (fault.empty()) return topology;
  const ParsedFault parsed = parse_fault(fault);
  CHECK(parsed.wrong == "");
  topology.faults.push_back(parsed.fault);
  return topology;
}

Tensor batch_of(RuntimeContext& torch, int step, int rank) {
  Floats elements(16);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = static_cast<float>((static_cast<int>(i) * 5 + step * 3 + rank * 7) % 9 - 4);
  }
  return torch.tensor(elements, {4, 4}, kOnOnePe);
}

struct Training {
  int first_without = kSteps;  // the step from which three ranks train
  Floats weights;
  Time took{0};
};

// Rank kDead dies by the fault, or leaves before step `leaves`.
Training train(const std::string& fault, int leaves) {
  RuntimeContext torch(machine(fault));
  torch.distributed.init_process_group("ahbm");
  Training training;
  run_on_devices(torch, kRanks, [&](int rank) {
    nn::Sequential model(nn::Linear(torch, 4, 8, kOnOnePe), nn::Linear(torch, 8, 2, kOnOnePe));
    fill_parameters(torch, *model);
    std::optional<Ddp> ddp(std::in_place, model);
    optim::SGD optimizer(model->parameters(), 0.0625);
    std::vector<int> dead;
    bool is_whole = true;
    for (int step = 0; step < kSteps;) {
      try {
        const bool leaves_now = is_whole && step == leaves;
        if (leaves_now && rank == kDead) return;
        if (leaves_now) dead = {kDead};
        if (!dead.empty()) {
          is_whole = false;
          torch.distributed.shrink_group(dead, {.shrink_flags = distributed::SHRINK_ABORT});
          ddp.emplace(model);
          dead.clear();
        }
        optimizer.zero_grad();
        const Tensor loss = (*ddp)(batch_of(torch, step, rank)).square().mean();
        loss.backward();
        optimizer.step();
        torch.ahbm.synchronize();
        ++step;
      } catch (const DistBackendError& error) {
        training.first_without = step;
        dead = error.ranks();
      }
    }
    if (rank != 0) return;
    for (const Tensor& parameter : model->parameters()) {
      const Floats elements = parameter.to_vector();
      training.weights.insert(training.weights.end(), elements.begin(), elements.end());
    }
  });
  training.took = simulation_of(torch).now();
  return training;
}

TEST_CASE("training goes on without a rank that dies as it does without one that leaves",
          "[parallel][faults][shrink]") {
  const Training whole = train("", -1);
  const std::string fault = fmt::format("rank=2 dies={}ps detected=+30us", whole.took.count() / 2);
  const Training after_death = train(fault, -1);
  CHECK(after_death.first_without > 0);
  CHECK(after_death.first_without < kSteps);
  CHECK(after_death.weights != whole.weights);
  const Training after_leaving = train("", after_death.first_without);
  CHECK(after_death.weights == after_leaving.weights);
}

}  // namespace
}  // namespace kernbench::test::elastic_training_test
