// Loads of experts: which experts each token goes to, without a router's values.
//
//   const auto load = kb::moe::RoutingLoad::parse("W2");
//   // The experts of 4,096 tokens of rank 1, of 64, 8 for each.
//   const auto experts = load.experts({.ranks = 8, .num_experts = 64, .top_k = 8, .tokens = 4096},
//                                     1);

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench::moe {

// The question to a load.  `ranks` are the sources of tokens, over which the experts lie in order.
// A program that lays the same tokens out on fewer ranks asks with the same `ranks`, for the tokens
// of each of these sources.
struct LoadShape {
  int ranks = 1;
  std::int64_t num_experts = 1;
  std::int64_t top_k = 1;
  std::int64_t tokens = 1;  // of a rank, where all have as many
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

// The loads of Megatron's list of workloads (Megatron-LM PR #7488), by its numbers; half of the
// tokens, every other one, are hot where experts are, and the others are balanced:
//   W0  balanced: each expert gets as many tokens
//   W1  hot experts: num_experts / 32 of them, one at least, dealt out over the ranks in turn
//   W2  hot rank: all experts of rank 0
//   W3  the heat of W2 spread: as many experts, on as many ranks as they can be
//   W4  ragged sources: rank r has 2 (r + 1) / (ranks + 1) times the tokens; balanced
//   W5  idle ranks: the second half of the ranks has no tokens; balanced
//   W6  rotating: W2, of rank step mod ranks
//   W7  burst: in each fourth step, from step 0 on, all tokens are hot for rank 0; else balanced
//   lognormal:SIGMA  experts have weights exp(SIGMA z), z normal, and each token draws top_k of
//                    them without replacement (the Gumbel-top-k trick, arXiv 1903.06059)
//   trace:FILE       a line for each token: its experts, apart by blanks or commas; # begins a
//                    comment.  Rank r begins behind the tokens of rank r - 1, a step behind the one
//                    before, and the first line comes behind the last
// Each token has top_k distinct experts, which follow from (load, seed, step, rank, token) alone.
class RoutingLoad {
 public:
  // Throws CollectiveError KB-C029 for another name, for a SIGMA that is no number from 0 on, and
  // for a trace that cannot be read or, with its line, has what is no number.
  static RoutingLoad parse(std::string_view text);

  const std::string& name() const { return name_; }  // as it was given
  // The tokens of a rank.
  std::int64_t tokens(const LoadShape& shape, int rank) const;
  // The experts of each token of a rank: [tokens, top_k] row by row.
  // Throws CollectiveError KB-C029 if top_k is not from 1 to num_experts, for a negative step, and
  // for a line of a trace, with its number, that has another number of experts, one twice, or one
  // that there is not.
  std::vector<std::int64_t> experts(const LoadShape& shape, int rank) const;

 private:
  enum class Kind : std::uint8_t {
    balanced,
    hot_experts,
    hot_rank,
    spread_heat,
    ragged,
    idle,
    rotating,
    burst,
    lognormal,
    trace
  };
  struct Line {
    std::int64_t number = 0;
    std::vector<std::int64_t> experts;
  };
  struct Heat;

  Heat heat_of(const LoadShape& shape) const;
  std::vector<std::int64_t> by_heat(const LoadShape& shape, int rank) const;
  std::vector<std::int64_t> drawn(const LoadShape& shape, int rank) const;
  std::vector<std::int64_t> traced(const LoadShape& shape, int rank) const;
  void read_trace(const std::string& path);

  std::string name_;
  Kind kind_ = Kind::balanced;
  double sigma_ = 0;
  std::string path_;
  std::shared_ptr<const std::vector<Line>> trace_;
};

// Tokens, over all ranks, that each expert gets.
std::vector<std::int64_t> expert_loads(const RoutingLoad& load, const LoadShape& shape);

// The largest of some loads over their mean: by how much the slowest takes longer than if all had
// as many (Megatron's overload factor, Megatron-LM PR #4110).  1 if there are none.
double overload_factor(const std::vector<std::int64_t>& loads);

}  // namespace kernbench::moe
