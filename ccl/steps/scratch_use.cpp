#include "ccl/steps/scratch_use.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ccl/steps/grain.h"
#include "ccl/steps/step.h"

namespace kernbench::ccl {

namespace {

// The units that a window of parts keeps at each time, from kPostsAhead before its first one on.
// All parts of a window are alike, and other windows come before and after it.
class KeptUnits {
 public:
  explicit KeptUnits(const Plan& plan)
      : interval_(static_cast<std::size_t>(window_interval(plan))), window_(plan.window) {
    kept_.resize(interval_);
  }

  void add(int begin, int end, std::int64_t units) {
    for (int time = begin; time <= end; ++time) {
      kept_[static_cast<std::size_t>(time + kPostsAhead) % interval_] += units;
    }
  }
  std::int64_t most() const { return window_ * *std::ranges::max_element(kept_); }

 private:
  const std::size_t interval_;
  const int window_;
  std::vector<std::int64_t> kept_;  // by time, modulo the interval
};

std::int64_t units_of(const Move& move) {
  return move.chunk.end - move.chunk.begin;
}

}  // namespace

std::int64_t most_units_kept(const Plan& plan, std::size_t summands) {
  KeptUnits kept(plan);
  std::vector<int> last_use(plan.moves.size());
  for (std::size_t i = 0; i < plan.moves.size(); ++i) last_use[i] = plan.moves[i].time;
  for (const Move& move : plan.moves) {
    for (const int part : move.parts) {
      int& last = last_use[static_cast<std::size_t>(part)];
      last = std::max(last, move.time);
    }
  }
  for (std::size_t i = 0; i < plan.moves.size(); ++i) {
    const Move& move = plan.moves[i];
    const std::int64_t units = units_of(move);
    const auto messages = static_cast<std::int64_t>(move.from.size());
    const auto loads = move.has_source ? 1 : 0;
    kept.add(move.time - kPostsAhead, move.time, messages * units);
    kept.add(move.time - kLoadsAhead, move.time, loads * units);
    const bool is_sum = messages + loads + (move.parts.empty() ? 0 : 1) > 1;
    kept.add(is_sum ? move.time : move.time + 1, std::max(last_use[i], move.time + 1), units);
  }
  // While summands are added up, one more is loaded, and the new sum stands beside the old one.
  const int being_added = summands > 1 ? 2 : 0;
  return kept.most() + being_added * plan.largest_chunk();
}

}  // namespace kernbench::ccl
