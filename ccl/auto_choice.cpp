#include "ccl/auto_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "ccl/kernel_launcher.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::ccl {

namespace {

Time time_of(const Algorithm& algorithm, const Topology& topology, const Config& config,
             const Shape& shape, const TensorOptions& options) {
  RuntimeContext torch(topology, {.data = false});
  const KernelLauncher launcher(torch, config);
  const int tensor_count = launcher.layout().is_rank_pe() ? 1 : topology.system.sip_count;
  std::vector<Tensor> tensors;
  for (int sip = 0; sip < tensor_count; ++sip) {
    torch.ahbm.set_device(sip);
    tensors.push_back(torch.empty(shape, options));
  }
  launcher.launch(algorithm, tensors);
  return torch.engine().critical_pe_exec();
}

}  // namespace

std::string describe(const Choice& choice) {
  std::string text;
  for (const auto& [algorithm, time] : choice.tried) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", algorithm->name, to_string(time));
  }
  return text;
}

Choice choose_algorithm(const Topology& topology, const Config& config, const Shape& shape,
                        const TensorOptions& options) {
  Choice choice;
  std::string why_not;
  for (const Algorithm* candidate : config.candidates()) {
    try {
      choice.tried.emplace_back(candidate, time_of(*candidate, topology, config, shape, options));
    } catch (const CollectiveError& error) {
      why_not = error.what();
    }
  }
  if (choice.tried.empty()) {
    throw CollectiveError("KB-C013", "no algorithm fits; the last one tried said: " + why_not);
  }
  std::ranges::stable_sort(choice.tried, {}, &std::pair<const Algorithm*, Time>::second);
  choice.algorithm = choice.tried.front().first;
  return choice;
}

}  // namespace kernbench::ccl
