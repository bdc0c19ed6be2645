// The actions of a pipeline schedule, and their text, which is that of
// torch.distributed.pipelining: stage, what is done, micro-batch.
//
//   0F1       stage 0 runs forward of micro-batch 1
//   3B0       stage 3 runs backward of micro-batch 0
//   3I0, 3W0  stage 3 runs backward of micro-batch 0 in two halves: the gradient of its input, then
//             those of its parameters
//   0SEND_F1  stage 0 sends what 0F1 has computed to stage 1
//   1RECV_F1  stage 1 receives it
//   1SEND_B1, 0RECV_B1: the same of gradients, to the stage before
//   2UNSHARD, 2RESHARD  stage 2 gathers the parameters that fully_shard has cut, and frees them
//   2REDUCE_GRAD        it reduces their gradients, if the ranks have not done so

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench::distributed::pipelining {

// Computations come first, actions of a stage as a whole last.
enum class ActionKind : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
  unshard,
  reshard,
  reduce_grad,
};

constexpr bool is_compute(ActionKind kind) {
  return kind <= ActionKind::backward_weight;
}

// True for those that make the gradient of a stage's input.
constexpr bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

// False for those of a stage as a whole.
constexpr bool has_microbatch(ActionKind kind) {
  return kind < ActionKind::unshard;
}

constexpr bool is_of_forward(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::send_forward ||
         kind == ActionKind::receive_forward;
}

// False for those that a step without backward has, too.
constexpr bool is_of_backward(ActionKind kind) {
  return !is_of_forward(kind) && kind != ActionKind::unshard && kind != ActionKind::reshard;
}

struct Action {
  int stage = 0;
  ActionKind kind = ActionKind::forward;
  int microbatch = 0;  // 0 if it has none

  friend auto operator<=>(const Action&, const Action&) = default;
};

// The actions of each rank, in the order in which it does them.
using ActionLists = std::vector<std::vector<Action>>;

std::string to_string(const Action& action);

// Throws CollectiveError KB-C024, in torch's words, for what is no action.
Action parse_action(std::string_view text);

// A row for each rank, with commas between actions; empty cells are skipped.  The parts of
// (0F5;3B2)OVERLAP_F_B are actions one after the other, as in torch without a function of the
// user's.  Throws as parse_action(), with the row and the cell.
ActionLists parse_actions(std::string_view csv);
std::string to_csv(const ActionLists& lists);

}  // namespace kernbench::distributed::pipelining
