#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/shard_spec.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/fsdp_shards.h"
#include "runtime/parallel/fully_shard.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed::checkpoint {

namespace {

const ShardSpec* spec_of(const Tensor& tensor) {
  return tensor.storage()->shard_of.get();
}

// Returns the whole parameter that a tensor is a shard of; other tensors as they are.
Tensor gathered(const Tensor& tensor) {
  const ShardSpec* const spec = spec_of(tensor);
  if (spec == nullptr) return tensor;
  RuntimeContext& torch = runtime::context_of(*tensor.storage()->simulation);
  const NoGradGuard no_grad(torch);
  if (!spec->padded.defined()) return fsdp::gather_rows(torch, tensor, *spec);
  const Tensor& own = spec->padded;
  std::vector<std::int64_t> sizes(own.shape().begin(), own.shape().end());
  sizes[0] *= torch.distributed.get_world_size(spec->group);
  const Tensor all =
      ops::make_like(own, spec->name, Shape(sizes), own.dtype(), ops::placement_of(own));
  torch.distributed.all_gather_into_tensor(all, own, {.group = spec->group});
  return runtime::make_stretch_view(all, 0, 0, spec->parameter.shape()[0]);
}

// Returns the rows of a whole parameter that a shard has.
Tensor rows_for(const Tensor& shard, const Tensor& whole) {
  const ShardSpec* const spec = spec_of(shard);
  if (spec == nullptr || whole.shape() != spec->parameter.shape()) return whole;
  const std::vector<float> all = whole.to_vector();
  const std::int64_t rows = whole.shape()[0];
  const std::int64_t first = std::min(spec->first_row, rows);
  const auto begin = all.begin() + (rows == 0 ? 0 : first * (whole.numel() / rows));
  return RuntimeContext::tensor(std::vector(begin, begin + shard.numel()), shard.shape());
}

// Says what of a shard does not fit, or nothing.
std::string misfit(const std::string& name, const Tensor& own, const Tensor& given) {
  const ShardSpec* const spec = spec_of(own);
  const ShardSpec* const of = spec_of(given);
  const bool has_other_rows = of != nullptr && (of->first_row != spec->first_row ||
                                                of->parameter.shape() != spec->parameter.shape());
  if (given.shape() == own.shape() && !has_other_rows) return "";
  const auto rows = [](const ShardSpec* rows_of) {
    return rows_of == nullptr ? "" : fmt::format(" from row {} on", rows_of->first_row);
  };
  return fmt::format("'{}' is {}{}, and this rank's shard of {} is {}{}", name,
                     to_string(given.shape()), rows(of), to_string(spec->parameter.shape()),
                     to_string(own.shape()), rows(spec));
}

// Ranks tell each other whether their shards fit, since those of another number of ranks may have
// as many rows here by chance, but other ones.
void check_shards(const nn::StateDict& own, const nn::StateDict& state) {
  struct Answer {
    ProcessGroup group;
    RuntimeContext* torch = nullptr;
    std::string text;
  };
  std::vector<Answer> answers;  // one for each group
  for (const auto& item : own) {
    const ShardSpec* const spec = spec_of(item.value());
    if (spec == nullptr) continue;
    auto answer = std::ranges::find(answers, spec->group, &Answer::group);
    if (answer == answers.end()) {
      RuntimeContext& torch = runtime::context_of(*item.value().storage()->simulation);
      answer = answers.insert(answer, {spec->group, &torch, ""});
    }
    const Tensor* const given = state.find(item.key());
    if (given != nullptr && answer->text.empty()) {
      answer->text = misfit(item.key(), item.value(), *given);
    }
  }
  for (const Answer& answer : answers) {
    std::vector<std::string> texts;
    answer.torch->distributed.all_gather_object(texts, answer.text, answer.group);
    const auto first = std::ranges::find_if(texts, [](const auto& text) { return !text.empty(); });
    if (first == texts.end()) continue;
    throw CollectiveError(
        "KB-A011",
        "set_model_state_dict: size mismatch on rank {}: {}: these are shards of another rank, or "
        "of another number of ranks; each rank loads its own, or all load the whole state with "
        "full_state_dict = true",
        answer.torch->distributed.get_global_rank(answer.group,
                                                  static_cast<int>(first - texts.begin())),
        *first);
  }
}

}  // namespace

nn::StateDict get_model_state_dict(const nn::Module& module, const StateDictOptions& options) {
  const nn::StateDict state = module.state_dict();
  if (!options.full_state_dict) return state;
  nn::StateDict whole;
  for (const auto& item : state) whole.insert(item.key(), gathered(item.value()));
  return whole;
}

nn::IncompatibleKeys set_model_state_dict(nn::Module& module, const nn::StateDict& state,
                                          const StateDictOptions& options) {
  const nn::StateDict own = module.state_dict();
  if (!options.full_state_dict) {
    check_shards(own, state);
    return module.load_state_dict(state, {.strict = options.strict});
  }
  nn::StateDict shards;
  for (const auto& item : state) {
    const Tensor* const shard = own.find(item.key());
    shards.insert(item.key(), shard == nullptr ? item.value() : rows_for(*shard, item.value()));
  }
  return module.load_state_dict(shards, {.strict = options.strict});
}

}  // namespace kernbench::distributed::checkpoint
