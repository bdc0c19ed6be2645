#include <algorithm>

#include "ccl/collectives/plan.h"

namespace kernbench::ccl {

namespace {

const std::vector<Fragment>* fragments_of(const std::shared_ptr<const Cut>& cut, const Lane& lane) {
  if (cut == nullptr) return nullptr;
  const auto found = cut->fragments.find(lane);
  return found == cut->fragments.end() ? nullptr : &found->second;
}

// Plans one lane: first the member's block for itself, then the exchanges by increasing distance.
class Pairs {
 public:
  Pairs(const MemberView& view, const PairCuts& cuts, const Lane& lane)
      : view_(view), cuts_(cuts), lane_(lane) {}

  std::vector<Step> steps() {
    copy_own();
    for (int distance = 1; distance < view_.ring.size(); ++distance) {
      exchange(view_.ring.member_after(view_.self, distance),
               view_.ring.member_after(view_.self, -distance));
    }
    return std::move(steps_);
  }

 private:
  void copy_own() {
    const auto& cut = cuts_.out[static_cast<std::size_t>(view_.self)];
    const std::vector<Fragment>* all = fragments_of(cut, lane_);
    for (std::size_t i = 0; all != nullptr && i < all->size(); ++i) {
      Step& step = add((*all)[i]);
      step.source = source(view_.self, (*all)[i]);
      step.target = target(view_.self, (*all)[i]);
    }
  }

  void exchange(int taker, int giver) {
    const auto* out = fragments_of(cuts_.out[static_cast<std::size_t>(taker)], lane_);
    const auto* in = fragments_of(cuts_.in[static_cast<std::size_t>(giver)], lane_);
    const std::size_t out_count = out == nullptr ? 0 : out->size();
    const std::size_t in_count = in == nullptr ? 0 : in->size();
    for (std::size_t i = 0; i < std::max(out_count, in_count); ++i) {
      if (i < out_count) {
        Step& step = add((*out)[i]);
        step.source = source(taker, (*out)[i]);
        step.to[0] = taker;
      }
      if (i < in_count) {
        Step& step = add((*in)[i]);
        step.from[0] = giver;
        step.target = target(giver, (*in)[i]);
      }
    }
  }

  Step& add(const Fragment& fragment) {
    Step& step = steps_.emplace_back();
    step.rows = fragment.rows;
    step.columns = fragment.columns;
    return step;
  }
  ShardRange source(int taker, const Fragment& fragment) const {
    return shard_range(*block_for(view_.request.gives, taker),
                       *cuts_.out[static_cast<std::size_t>(taker)], 0, fragment);
  }
  ShardRange target(int giver, const Fragment& fragment) const {
    // The taker's layout is the last one; there is only one if both are equal.
    const Cut& cut = *cuts_.in[static_cast<std::size_t>(giver)];
    return shard_range(*block_for(view_.request.takes, giver), cut,
                       static_cast<int>(cut.layouts.size()) - 1, fragment);
  }

  const MemberView& view_;
  const PairCuts& cuts_;
  const Lane lane_;
  std::vector<Step> steps_;
};

}  // namespace

LaneSteps pair_steps(const MemberView& view, const PairCuts& cuts) {
  LaneSteps steps;
  for (const auto* list : {&cuts.out, &cuts.in}) {
    for (const auto& cut : *list) {
      if (cut == nullptr) continue;
      for (const auto& [lane, fragments] : cut->fragments) steps[lane];
    }
  }
  for (auto& [lane, of_lane] : steps) of_lane = Pairs(view, cuts, lane).steps();
  return steps;
}

}  // namespace kernbench::ccl
