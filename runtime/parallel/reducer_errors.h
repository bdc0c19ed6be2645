// Errors of a Reducer about programs that it cannot serve, in torch's words.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kernbench::nn::parallel {

// The rank and the parameters that an error is about.
struct ReducerState {
  int rank = 0;
  bool static_graph = false;
  bool find_unused_parameters = false;
  std::span<const std::string> names;  // of all parameters
};

// Each throws CollectiveError KB-A016.

// Parameters that got no gradient in the last backward().
[[noreturn]] void refuse_unfinished(const ReducerState& state,
                                    const std::vector<std::size_t>& without_gradient);
[[noreturn]] void refuse_marked_twice(const ReducerState& state, std::size_t parameter);
// A gradient that is not the view of its bucket that it was made.
[[noreturn]] void refuse_other_gradient(const ReducerState& state, std::size_t parameter);
[[noreturn]] void refuse_changed_graph(const ReducerState& state, std::size_t parameter);

}  // namespace kernbench::nn::parallel
