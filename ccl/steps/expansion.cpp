#include "ccl/steps/expansion.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace kernbench::ccl {

namespace {

class Expansion {
 public:
  Expansion(const Plan& plan, const PlaceOf& place_of, const CubeFilter& cubes)
      : plan_(plan), place_of_(place_of), cubes_(cubes) {}

  LaneSteps steps() {
    for (std::size_t i = 0; i < plan_.moves.size(); ++i) add(static_cast<int>(i));
    for (auto& [lane, steps] : steps_) {
      std::ranges::stable_sort(steps, [](const Step& a, const Step& b) {
        return std::tie(a.time, a.id.fragment, a.move->stage, a.move->chunk) <
               std::tie(b.time, b.id.fragment, b.move->stage, b.move->chunk);
      });
      count_uses(steps);
    }
    return std::move(steps_);
  }

 private:
  const ChunkPlace& place_of(const Chunk& chunk) {
    const auto [known, is_new] = places_.try_emplace({chunk.giver, chunk.taker});
    if (is_new) known->second = place_of_(chunk);
    return known->second;
  }

  void add(int index) {
    const Move& move = plan_.moves[static_cast<std::size_t>(index)];
    const ChunkPlace& place = place_of(move.chunk);
    if (place.cut == nullptr) return;
    for (const auto& [lane, fragments] : place.cut->fragments) {
      for (std::size_t i = 0; i < fragments.size(); ++i) {
        add(steps_[lane], move, {static_cast<int>(i), index}, place, fragments[i]);
      }
    }
  }

  void add(std::vector<Step>& steps, const Move& move, const HeldId& id, const ChunkPlace& place,
           const Fragment& whole) const {
    const Chunk& chunk = move.chunk;
    const Fragment fragment = part_of(whole, chunk.begin, chunk.end, plan_.units);
    if (fragment.count() == 0) return;
    Step step;
    step.move = &move;
    step.time = id.fragment / plan_.window * interval_ + move.time;
    step.rows = fragment.rows;
    step.columns = fragment.columns;
    step.id = id;
    if (move.has_source) {
      step.source = range_of(place, *place.source, place.source_layout, fragment, cubes_.source);
    }
    if (move.stores && place.target != nullptr) {
      step.target = range_of(place, *place.target, place.target_layout, fragment, cubes_.target);
    }
    if (move.stores && place.target == nullptr && move.to.empty()) return;  // it has the value
    for (const int part : move.parts) add_part(step, part, whole);
    steps.push_back(std::move(step));
  }

  // Adds what an earlier move holds of the step's chunk.
  void add_part(Step& step, int move, const Fragment& whole) const {
    const Chunk& held = plan_.moves[static_cast<std::size_t>(move)].chunk;
    const Chunk& own = step.move->chunk;
    const auto at = [&](int unit) { return elements_before(whole, unit, plan_.units); };
    const std::int64_t begin = at(std::max(held.begin, own.begin));
    const std::int64_t end = at(std::min(held.end, own.end));
    if (begin < end) {
      step.parts.push_back({{step.id.fragment, move}, begin - at(held.begin), end - begin});
    }
  }

  ShardRange range_of(const ChunkPlace& place, const distributed::Block& block, int layout,
                      const Fragment& fragment, int cube) const {
    const auto index = static_cast<std::size_t>(layout);
    const FragmentAt& at = fragment.at[index];
    const Slice* slice = place.slice;
    if (slice == nullptr) {
      slice = &place.cut->layouts[index].tensor->slices[static_cast<std::size_t>(at.slice)];
    }
    return {&block.tensor, slice, at.offset, at.pitch, cube};
  }

  static void count_uses(std::vector<Step>& steps) {
    std::map<HeldId, int> uses;
    for (const Step& step : steps) {
      for (const HeldPart& part : step.parts) ++uses[part.id];
    }
    if (uses.empty()) return;
    for (Step& step : steps) {
      if (const auto found = uses.find(step.id); found != uses.end()) step.uses = found->second;
    }
  }

  const Plan& plan_;
  const PlaceOf& place_of_;
  const CubeFilter cubes_;
  const int interval_ = plan_.interval > 0 ? plan_.interval : std::max((plan_.length + 1) / 2, 1);
  std::map<std::pair<int, int>, ChunkPlace> places_;  // by giver and taker
  LaneSteps steps_;
};

}  // namespace

LaneSteps expand(const Plan& plan, const PlaceOf& place_of, const CubeFilter& cubes) {
  return Expansion(plan, place_of, cubes).steps();
}

}  // namespace kernbench::ccl
