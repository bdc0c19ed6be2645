#include "ccl/steps/scratch_use.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ccl/steps/cut_sizes.h"
#include "ccl/steps/step.h"

namespace kernbench::ccl {

namespace {

// The chunks that slices which begin together keep at each time, from kPostsAhead before their
// first one on.  All slices are alike, and others begin an interval before and after them.
class KeptChunks {
 public:
  explicit KeptChunks(const Plan& plan)
      : interval_(static_cast<std::size_t>(slice_interval(plan))), slices_(plan.slices_at_once) {
    kept_.resize(interval_);
  }

  void add(int begin, int end, std::int64_t chunks) {
    for (int time = begin; time <= end; ++time) {
      kept_[static_cast<std::size_t>(time + kPostsAhead) % interval_] += chunks;
    }
  }
  std::int64_t most() const { return slices_ * *std::ranges::max_element(kept_); }

 private:
  const std::size_t interval_;
  const int slices_;
  std::vector<std::int64_t> kept_;  // by time, modulo the interval
};

}  // namespace

std::int64_t most_chunks_kept(const Plan& plan, std::size_t summands) {
  KeptChunks kept(plan);
  std::vector<int> last_use(plan.moves.size());
  for (const Move& move : plan.moves) {
    for (const int held : move.held) {
      int& last = last_use[static_cast<std::size_t>(held)];
      last = std::max(last, move.time);
    }
  }
  for (std::size_t i = 0; i < plan.moves.size(); ++i) {
    const Move& move = plan.moves[i];
    const std::int64_t chunks = move.chunks.count();
    const auto messages = static_cast<std::int64_t>(move.from.size());
    const auto loads = move.has_source ? 1 : 0;
    kept.add(move.time - kPostsAhead, move.time, messages * chunks);
    kept.add(move.time - kLoadsAhead, move.time, loads * chunks);
    const bool is_sum = messages + loads + (move.held.empty() ? 0 : 1) > 1;
    kept.add(is_sum ? move.time : move.time + 1, std::max(last_use[i], move.time + 1), chunks);
  }
  // While summands are added up, one more is loaded, and the new sum stands beside the old one.
  const int being_added = summands > 1 ? 2 : 0;
  return kept.most() + being_added * plan.most_chunks();
}

}  // namespace kernbench::ccl
