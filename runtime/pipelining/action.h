// The actions of a pipeline schedule, and their text, which is that of
// torch.distributed.pipelining: stage, what is done, micro-batch.
//
//   0F1       stage 0 runs forward of micro-batch 1
//   3B0       stage 3 runs backward of micro-batch 0
//   0SEND_F1  stage 0 sends what 0F1 has computed to stage 1
//   1RECV_F1  stage 1 receives it
//   1SEND_B1, 0RECV_B1: the same of gradients, to the stage before

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench::distributed::pipelining {

enum class ActionKind : std::uint8_t {
  forward,
  backward,
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
};

constexpr bool is_compute(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::backward;
}

constexpr bool is_of_forward(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::send_forward ||
         kind == ActionKind::receive_forward;
}

struct Action {
  int stage = 0;
  ActionKind kind = ActionKind::forward;
  int microbatch = 0;

  friend auto operator<=>(const Action&, const Action&) = default;
};

// The actions of each rank, in the order in which it does them.
using ActionLists = std::vector<std::vector<Action>>;

std::string to_string(const Action& action);

// Throws CollectiveError KB-C024, in torch's words, for what is no action, and for one of torch's
// that is not run here: I, W, UNSHARD, RESHARD, REDUCE_GRAD and OVERLAP_F_B.
Action parse_action(std::string_view text);

// A row for each rank, with commas between actions; empty cells are skipped.  Throws as
// parse_action(), with the row and the cell.
ActionLists parse_actions(std::string_view csv);
std::string to_csv(const ActionLists& lists);

}  // namespace kernbench::distributed::pipelining
