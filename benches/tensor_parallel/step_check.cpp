#include "benches/tensor_parallel/step_check.h"

#include <algorithm>
#include <bit>
#include <map>

namespace kernbench::benches::tensor_parallel {

namespace {

class Checker {
 public:
  // `shared`: the number of a tensor that all ranks have.
  void check(const Tensor& tensor, const Expected& expected, const Part& part,
             std::optional<std::size_t> shared) {
    const std::vector<float> found = tensor.to_vector();
    const Comparison comparison = compare(found, expected, part);
    result_.checked += static_cast<std::int64_t>(found.size());
    result_.wrong += comparison.wrong;
    result_.worst = std::max(result_.worst, comparison.worst);
    result_.error = std::max(result_.error, comparison.error);
    result_.bound = std::max(result_.bound, comparison.bound);
    if (shared) compare_with_first(found, *shared);
  }

  const StepCheck& result() const { return result_; }

 private:
  void compare_with_first(const std::vector<float>& found, std::size_t number) {
    const auto& first = first_.try_emplace(number, found).first->second;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool is_equal =
          std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(first[i]);
      if (!is_equal) ++result_.unequal;
    }
  }

  StepCheck result_;
  std::map<std::size_t, std::vector<float>> first_;  // of the first rank that has it
};

bool is_on_all_ranks(const tp::Parameter& parameter) {
  return !parameter.attributes || !parameter.attributes->tensor_model_parallel;
}

}  // namespace

StepCheck check_step(std::span<const RankStep> ranks, const StepInput& input,
                     const ExpectedStep& expected) {
  const int world_size = static_cast<int>(ranks.size());
  Checker checker;
  for (int rank = 0; rank < world_size; ++rank) {
    const RankStep& step = ranks[static_cast<std::size_t>(rank)];
    const Part tokens = part_of_tokens(input, rank, world_size);
    std::size_t number = 0;
    const auto check = [&](const Tensor& tensor, const Expected& whole, const Part& part,
                           bool is_shared) {
      checker.check(tensor, whole, part, is_shared ? std::optional(number) : std::nullopt);
      ++number;
    };
    check(step.y, expected.y, tokens, !input.sequence_parallel);
    check(step.x.grad(), expected.dx, tokens, !input.sequence_parallel);
    for (std::size_t i = 0; i < step.parameters.size(); ++i) {
      const tp::Parameter& parameter = step.parameters[i];
      const Expected& whole = expected.gradients[i];
      check(parameter.grad(), whole,
            find_part(parameter, whole.rows, whole.columns, rank, world_size),
            is_on_all_ranks(parameter));
    }
  }
  return checker.result();
}

}  // namespace kernbench::benches::tensor_parallel
