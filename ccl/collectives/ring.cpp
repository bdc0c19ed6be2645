#include <algorithm>
#include <optional>
#include <set>

#include "ccl/collectives/plan.h"

namespace kernbench::ccl {

namespace {

using distributed::CollectiveKind;

// A chunk is the data with which the member at one position begins or ends.  Chunks are numbered
// by these positions; messages go to the next position.
class Ring {
 public:
  Ring(const MemberView& view, const std::vector<SharedCut>& cuts, const Lane& lane)
      : view_(view), cuts_(cuts), lane_(lane), size_(view.ring.size()) {}

  std::vector<Step> steps() {
    const CollectiveKind kind = view_.request.kind;
    const int own = view_.ring.positions[static_cast<std::size_t>(view_.self)];
    for (std::size_t first = 0; first < most_fragments(); first += kInFlight) {
      first_ = first;
      if (kind == CollectiveKind::all_gather) all_gather(own, true);
      if (kind == CollectiveKind::reduce_scatter) reduce_scatter(own - 1, false);
      if (kind == CollectiveKind::all_reduce) {
        reduce_scatter(own, true);  // ends with the chunk of the next position
        all_gather(own + 1, false);
      }
    }
    return std::move(steps_);
  }

 private:
  // A partial sum travels with each chunk: first with `chunk`, then with the one before it, ...
  void reduce_scatter(int chunk, bool sends_result) {
    for (int step = 0; step < size_; ++step) {
      const bool is_last = step == size_ - 1;
      for_each_fragment(chunk - step, [&](const SharedCut& cut, const Fragment& fragment, int of) {
        Step& added = add(fragment);
        if (step > 0) added.from[0] = previous();
        added.source = source(cut, fragment, of);
        added.is_complete = is_last;
        if (is_last) added.target = target(cut, fragment, of);
        if (!is_last || (sends_result && size_ > 1)) added.to[0] = next();
      });
    }
  }

  // Sends this member's elements of `chunk`, then passes on the chunks from the previous member.
  void all_gather(int chunk, bool begins) {
    for (int step = begins ? 0 : 1; step < size_; ++step) {
      for_each_fragment(chunk - step, [&](const SharedCut& cut, const Fragment& fragment, int of) {
        Step& added = add(fragment);
        if (step == 0) added.source = source(cut, fragment, of);
        if (step > 0) added.from[0] = previous();
        added.target = target(cut, fragment, of);
        if (step < size_ - 1) added.to[0] = next();
      });
    }
  }

  int next() const { return view_.ring.member_after(view_.self, 1); }
  int previous() const { return view_.ring.member_after(view_.self, -1); }

  Step& add(const Fragment& fragment) {
    Step& step = steps_.emplace_back();
    step.rows = fragment.rows;
    step.columns = fragment.columns;
    return step;
  }

  // Visits the fragments of a chunk that are in flight; `of` is the member that the chunk belongs
  // to.
  template <class Visit>
  void for_each_fragment(int chunk, Visit visit) {
    const int position = ((chunk % size_) + size_) % size_;
    const int of = view_.ring.members[static_cast<std::size_t>(position)];
    const bool is_shared = view_.request.kind == CollectiveKind::all_reduce;
    const SharedCut& cut = cuts_[is_shared ? 0 : static_cast<std::size_t>(of)];
    const std::vector<Fragment>* all = fragments(cut);
    if (all == nullptr) return;
    for (std::size_t i = first_; i < std::min(first_ + kInFlight, all->size()); ++i) {
      const Fragment fragment = is_shared ? part_of((*all)[i], position, size_) : (*all)[i];
      if (fragment.count() > 0) visit(cut, fragment, of);
    }
  }

  const std::vector<Fragment>* fragments(const SharedCut& cut) const {
    const auto found = cut.cut->fragments.find(lane_);
    return found == cut.cut->fragments.end() ? nullptr : &found->second;
  }

  std::size_t most_fragments() const {
    std::size_t most = 0;
    for (const SharedCut& cut : cuts_) {
      if (const auto* all = fragments(cut)) most = std::max(most, all->size());
    }
    return most;
  }

  ShardRange source(const SharedCut& cut, const Fragment& fragment, int of) const {
    return shard_range(*block_for(view_.request.gives, of), *cut.cut,
                       cut.gives[static_cast<std::size_t>(view_.self)], fragment);
  }
  ShardRange target(const SharedCut& cut, const Fragment& fragment, int of) const {
    return shard_range(*block_for(view_.request.takes, of), *cut.cut,
                       cut.takes[static_cast<std::size_t>(view_.self)], fragment);
  }

  const MemberView& view_;
  const std::vector<SharedCut>& cuts_;
  const Lane lane_;
  const int size_;
  std::size_t first_ = 0;  // index of the first fragment in flight
  std::vector<Step> steps_;
};

}  // namespace

LaneSteps ring_steps(const MemberView& view, const std::vector<SharedCut>& cuts) {
  std::set<Lane> lanes;
  for (const SharedCut& cut : cuts) {
    for (const auto& [lane, fragments] : cut.cut->fragments) lanes.insert(lane);
  }
  LaneSteps steps;
  for (const Lane& lane : lanes) steps[lane] = Ring(view, cuts, lane).steps();
  return steps;
}

}  // namespace kernbench::ccl
