#include "ccl/steps/expansion.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ccl/steps/grain.h"

namespace kernbench::ccl {

namespace {

// Steps mostly concern the shards of one of the steps just before; if not, these are listed again.
constexpr std::size_t kRecentShards = 8;

class Expansion {
 public:
  Expansion(const Plan& plan, const PlaceOf& find_place, const CubeFilter& cubes, PartOrder order)
      : plan_(plan), place_of_(find_place), cubes_(cubes), order_(order) {}

  LaneSteps steps() {
    for (std::size_t i = 0; i < plan_.moves.size(); ++i) add(static_cast<int>(i));
    for (auto& [lane, list] : lists_) {
      std::ranges::stable_sort(list.steps, [this](const Step& a, const Step& b) {
        if (a.time != b.time) return a.time < b.time;
        const Move& one = move_of(a);
        const Move& other = move_of(b);
        // Fragments in sequence have all their moves one after the other.  Others are ordered by
        // stage and chunk, as the other end of each queue orders them: messages have no names, so
        // both ends must agree.
        if (order_ == PartOrder::in_sequence && a.fragment == b.fragment &&
            one.time != other.time) {
          return one.time < other.time;
        }
        return std::tie(a.fragment, one.stage, one.chunk) <
               std::tie(b.fragment, other.stage, other.chunk);
      });
      list_peers(list);
      number_held(list);
    }
    return std::move(lists_);
  }

 private:
  // A fragment's share of a block's units: the share of class `index` among `count` classes.
  struct Deal {
    int index = 0;
    int count = 1;
  };
  struct Whole {
    const Fragment& fragment;
    Deal deal;
  };

  const Move& move_of(const Step& step) const {
    return plan_.moves[static_cast<std::size_t>(step.move)];
  }

  // The place of a unit's begin in the units that a fragment is cut into.
  int unit_in(const Whole& whole, int unit) const {
    const int first = whole.deal.index * plan_.units;
    return std::clamp(unit * whole.deal.count - first, 0, plan_.units);
  }

  const ChunkPlace& find_place(const Chunk& chunk) {
    const auto [known, is_new] = places_.try_emplace({chunk.giver, chunk.taker});
    if (is_new) known->second = place_of_(chunk);
    return known->second;
  }

  void add(int index) {
    const Move& move = plan_.moves[static_cast<std::size_t>(index)];
    const ChunkPlace& place = find_place(move.chunk);
    if (place.cut == nullptr) return;
    const Cut& cut = *place.cut;
    auto class_of = cut.class_of.begin();
    for (const auto& [lane, fragments] : cut.fragments) {
      const Deal deal{*class_of++, cut.classes};
      StepList& list = lists_[lane];
      Step step;
      step.move = index;
      for (step.fragment = 0; step.fragment < std::ssize(fragments); ++step.fragment) {
        add(list, step, place, {fragments[static_cast<std::size_t>(step.fragment)], deal});
      }
    }
  }

  void add(StepList& list, Step step, const ChunkPlace& place, const Whole& whole) const {
    const Move& move = move_of(step);
    const PartSize part = size_of_part(whole.fragment, unit_in(whole, move.chunk.begin),
                                       unit_in(whole, move.chunk.end), plan_.units);
    // A small fragment has fewer elements than the plan has units, so some units are empty.  Every
    // member skips the same ones.
    if (part.count() == 0) return;
    step.time = order_ == PartOrder::in_sequence
                    ? step.fragment
                    : step.fragment / plan_.window * interval_ + move.time;
    step.is_complete = move.is_complete;
    step.rows = part.rows;
    step.columns = part.columns;
    if (move.has_source) {
      const Shards from = {false, place.source, nullptr, cubes_.source};
      step.source = make_range(list, place, from, part.at(at_of(whole, place.source_layout)),
                               place.source_layout);
    }
    if (move.stores && place.target != kNobody) {
      const Shards to = {true, place.target, nullptr, cubes_.target};
      step.target = make_range(list, place, to, part.at(at_of(whole, place.target_layout)),
                               place.target_layout);
    }
    // A member that would only store a value that already lies in its output has nothing to do.
    if (move.stores && place.target == kNobody && move.to.empty()) return;  // it has the value
    step.parts = static_cast<std::uint32_t>(list.parts.size());
    for (const int held : move.parts) add_part(list, step, held, whole);
    list.steps.push_back(step);
  }

  // Adds what an earlier move holds of the step's chunk.  Its value is numbered later.
  void add_part(StepList& list, Step& step, int move, const Whole& whole) const {
    const Chunk& held = plan_.moves[static_cast<std::size_t>(move)].chunk;
    const Chunk& own = move_of(step).chunk;
    const auto at = [&](int unit) {
      return elements_before(whole.fragment, unit_in(whole, unit), plan_.units);
    };
    const std::int64_t begin = at(std::max(held.begin, own.begin));
    const std::int64_t end = at(std::min(held.end, own.end));
    if (begin >= end) return;
    list.parts.push_back({move, begin - at(held.begin), end - begin});
    ++step.part_count;
  }

  static const FragmentAt& at_of(const Whole& whole, int layout) {
    return whole.fragment.at[static_cast<std::size_t>(layout)];
  }

  ShardRange make_range(StepList& list, const ChunkPlace& place, Shards shards,
                        const FragmentAt& at, int layout) const {
    shards.slice = place.slice;
    if (shards.slice == nullptr) {
      const BlockLayout& block = place.cut->layouts[static_cast<std::size_t>(layout)];
      shards.slice = &block.tensor->slices[static_cast<std::size_t>(at.slice)];
    }
    for (std::size_t back = 1; back <= std::min(list.shards.size(), kRecentShards); ++back) {
      const std::size_t number = list.shards.size() - back;
      if (list.shards[number] == shards) return {static_cast<int>(number), at.offset, at.pitch};
    }
    list.shards.push_back(shards);
    return {static_cast<int>(list.shards.size()) - 1, at.offset, at.pitch};
  }

  void list_peers(StepList& list) const {
    std::map<int, int> known;  // by node
    for (Step& step : list.steps) {
      const Move& move = move_of(step);
      step.peers = static_cast<std::uint32_t>(list.peers.size());
      step.from_count = static_cast<std::uint16_t>(move.from.size());
      step.to_count = static_cast<std::uint16_t>(move.to.size());
      for (const auto* nodes : {&move.from, &move.to}) {
        for (const int node : *nodes) {
          const auto [found, is_new] = known.try_emplace(node, std::ssize(list.nodes));
          if (is_new) list.nodes.push_back(node);
          list.peers.push_back(found->second);
        }
      }
    }
  }

  // Numbers the values that later steps use.
  static void number_held(StepList& list) {
    if (list.parts.empty()) return;
    // Moves are numbered by the plan and values by the list, because several fragments of one move
    // hold a value each.
    std::map<std::pair<int, int>, Step*> makers;  // by fragment and move
    for (Step& step : list.steps) makers[{step.fragment, step.move}] = &step;
    for (const Step& step : list.steps) {
      for (std::size_t i = 0; i < step.part_count; ++i) {
        HeldPart& part = list.parts[step.parts + i];
        Step& maker = *makers.at({step.fragment, part.value});
        if (maker.uses++ == 0) maker.held = list.held_count++;
        part.value = maker.held;
      }
    }
  }

  const Plan& plan_;
  const PlaceOf& place_of_;
  const CubeFilter cubes_;
  const PartOrder order_;
  const int interval_ = window_interval(plan_);
  std::map<std::pair<int, int>, ChunkPlace> places_;  // by giver and taker
  LaneSteps lists_;
};

}  // namespace

LaneSteps expand(const Plan& plan, const PlaceOf& find_place, const CubeFilter& cubes,
                 PartOrder order) {
  return Expansion(plan, find_place, cubes, order).steps();
}

}  // namespace kernbench::ccl
