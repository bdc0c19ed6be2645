#include "runtime/parallel/reducer_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim_engine/base/error.h"

namespace kernbench::nn::parallel {

namespace {

constexpr std::string_view kPriorIteration =
    "Expected to have finished reduction in the prior iteration before starting a new one. ";
constexpr std::string_view kOutputsNotUsed =
    "making sure all `forward` function outputs participate in calculating loss. \nIf you already "
    "have done the above, then the distributed data parallel module wasn't able to locate the "
    "output tensors in the return value of your module's `forward` function. Please include the "
    "loss function and the structure of the return value of `forward` of your module when "
    "reporting this issue (e.g. list, dict, iterable).";

std::string cause_of_unfinished(const ReducerState& state) {
  if (state.static_graph) {
    return "This error indicates that your training graph has changed in this iteration, e.g., one "
           "parameter is used in first iteration, but then got unused in the second iteration. "
           "this is not compatible with static_graph set to True.";
  }
  const std::string_view advice =
      state.find_unused_parameters
          ? "Since `find_unused_parameters=True` is enabled, this likely  means that not all "
            "`forward` outputs participate in computing loss. You can fix this by "
          : "You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by "
            "\n";
  return fmt::format(
      "This error indicates that your module has parameters that were not used in producing loss. "
      "{}{}",
      advice, kOutputsNotUsed);
}

}  // namespace

void refuse_unfinished(const ReducerState& state,
                       const std::vector<std::size_t>& without_gradient) {
  std::vector<std::string> names;
  for (const std::size_t parameter : without_gradient) names.push_back(state.names[parameter]);
  throw CollectiveError("KB-A016",
                        "{}{}\nParameters which did not receive grad for rank {}: {}\nParameter "
                        "indices which did not receive grad for rank {}: {}",
                        kPriorIteration, cause_of_unfinished(state), state.rank,
                        fmt::join(names, ", "), state.rank, fmt::join(without_gradient, " "));
}

void refuse_marked_twice(const ReducerState& state, std::size_t parameter) {
  constexpr std::string_view kCommon =
      "Expected to mark a variable ready only once. This error is caused by one of the following "
      "reasons: 1) Use of a module parameter outside the `forward` function. Please make sure "
      "model "
      "parameters are not shared across multiple concurrent forward-backward passes. or try to use "
      "_set_static_graph() as a workaround if this module graph does not change during training "
      "loop.2) Reused parameters in multiple reentrant backward passes. For example, if you use "
      "multiple `checkpoint` functions to wrap the same part of your model, it would result in the "
      "same set of parameters been used by different reentrant backward passes multiple times, and "
      "hence marking a variable ready multiple times. DDP does not support such use cases in "
      "default. You can try to use _set_static_graph() as a workaround if your module graph does "
      "not change over iterations.";
  throw CollectiveError("KB-A016",
                        "{}\nParameter at index {} with name {} has been marked as ready twice. "
                        "This means that multiple autograd engine  hooks have fired for this "
                        "particular parameter during this iteration. (rank {})",
                        kCommon, parameter, state.names[parameter], state.rank);
}

void refuse_other_gradient(const ReducerState& state, std::size_t parameter) {
  throw CollectiveError(
      "KB-A016",
      "Detected at least one parameter gradient is not the expected DDP bucket view with "
      "gradient_as_bucket_view=True. This may happen (for example) if multiple allreduce hooks "
      "were registered onto the same parameter. (rank {}: parameter {}, '{}')",
      state.rank, parameter, state.names[parameter]);
}

void refuse_changed_graph(const ReducerState& state, std::size_t parameter) {
  throw CollectiveError(
      "KB-A016",
      "Your training graph has changed in this iteration, e.g., one parameter is unused in first "
      "iteration, but then got used in the second iteration. this is not compatible with "
      "static_graph set to True. (rank {}: parameter {}, '{}')",
      state.rank, parameter, state.names[parameter]);
}

}  // namespace kernbench::nn::parallel
