#include "benches/numerics/simulated_sums.h"

#include <algorithm>
#include <vector>

#include "runtime/random/generator.h"
#include "runtime/torch/run_ranks.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::benches::numerics {

namespace {

// Numbers of the type, the first `before` of which are others than those that follow.
std::vector<float> draw(const SumCall& call, int rank) {
  const random::Draw numbers(call.seed, static_cast<std::uint64_t>(rank));
  std::vector<float> elements;
  for (std::int64_t i = 0; i < call.before + call.count; ++i) {
    const std::int64_t n = i < call.before ? call.count + i : i - call.before;
    elements.push_back(sim::round_to(call.dtype, numbers.normal(n)));
  }
  return elements;
}

}  // namespace

SimulatedSums simulate_sums(RuntimeContext& torch, const SumCall& call) {
  const auto ranks = static_cast<std::size_t>(call.ranks);
  SimulatedSums result{Elements(ranks), Elements(ranks)};
  Time called{0};
  Time returned{0};
  run_on_devices(torch, call.ranks, [&](int rank) {
    const std::vector<float> given = draw(call, rank);
    Tensor x =
        torch.empty({call.before + call.count}, {.dtype = call.dtype, .dp = DPPolicy::on_one_pe()});
    x.copy_shard_(0, RuntimeContext::tensor(given, x.shape()));
    torch.distributed.barrier();
    called = std::max(called, torch.engine().now());
    torch.distributed.all_reduce(x, {.reproducible = call.level});
    torch.ahbm.synchronize();
    returned = std::max(returned, torch.engine().now());
    const auto wanted = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + call.before, all.end());
    };
    result.given[static_cast<std::size_t>(rank)] = wanted(given);
    result.sums[static_cast<std::size_t>(rank)] = wanted(x.to_vector<float>());
  });
  result.kernels = torch.engine().critical_pe_exec();
  result.took = returned - called;
  return result;
}

}  // namespace kernbench::benches::numerics
