#include "benches/stragglers/scheme_step.h"

#include <algorithm>

#include "benches/tensor_parallel/gpt_block.h"
#include "benches/tensor_parallel/training_step.h"

namespace kernbench::benches::stragglers {

namespace {

Time tensor_parallel_time(PointContext& point, const SchemeInput& input, const Topology& topology) {
  const auto& [layers, hidden, heads] =
      std::tuple(input.model.size.layers, input.model.size.hidden, input.model.size.heads);
  const tensor_parallel::GptSize size{
      .sequence = input.model.size.tokens(), .hidden = hidden, .heads = heads, .layers = layers};
  const tensor_parallel::StepInput step{
      .tokens = size.sequence, .hidden = hidden, .dtype = input.model.dtype, .pes = input.tp_pes};
  const auto torch = point.make_context(topology, {.ccl = point.bench().ccl(), .data = false});
  const auto build = [&](RuntimeContext& context) {
    return tensor_parallel::build_gpt(context, step, size);
  };
  Time longest{0};
  for (const tensor_parallel::RankStep& rank :
       tensor_parallel::run_training_step(*torch, step, build, nullptr)) {
    longest = std::max(longest, rank.step());
  }
  return longest;
}

}  // namespace

std::string_view name_of(Sharing sharing) {
  constexpr std::array<std::string_view, kSharings.size()> kNames = {"ddp", "zero1", "fsdp2", "tp"};
  return kNames.at(static_cast<std::size_t>(sharing));
}

Time step_time(PointContext& point, const SchemeInput& input, const Topology& topology) {
  if (input.sharing == Sharing::tp) return tensor_parallel_time(point, input, topology);
  ddp::StepInput model = input.model;
  model.scheme = static_cast<ddp::Scheme>(input.sharing);
  return ddp::measure_step(point, model, topology).time;
}

}  // namespace kernbench::benches::stragglers
