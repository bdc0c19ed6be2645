#include "ccl/steps/expansion.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ccl/steps/cut_sizes.h"

namespace kernbench::ccl {

namespace {

// Steps mostly concern the shards of one of the steps just before; if not, these are listed again.
constexpr std::size_t kRecentShards = 8;

class Expansion {
 public:
  Expansion(const Plan& plan, const PlaceOf& find_place, const CubeFilter& cubes, SliceOrder order)
      : plan_(plan), place_of_(find_place), cubes_(cubes), order_(order) {}

  LaneSteps steps() {
    for (std::size_t i = 0; i < plan_.moves.size(); ++i) add(static_cast<int>(i));
    for (auto& [lane, list] : lists_) {
      std::ranges::stable_sort(list.steps, [this](const Step& a, const Step& b) {
        if (a.time != b.time) return a.time < b.time;
        const Move& one = move_of(a);
        const Move& other = move_of(b);
        // Slices in sequence have all their moves one after the other.  Others are ordered by
        // stage and chunks, as the other end of each queue orders them: messages have no names, so
        // both ends must agree.
        if (order_ == SliceOrder::in_sequence && a.slice == b.slice && one.time != other.time) {
          return one.time < other.time;
        }
        return std::tie(a.slice, one.stage, one.chunks) <
               std::tie(b.slice, other.stage, other.chunks);
      });
      list_peers(list);
      number_held(list);
    }
    return std::move(lists_);
  }

 private:
  // Among how many channels the chunks are divided, and the one that a slice has.
  struct Channel {
    int index = 0;
    int count = 1;
  };
  struct Whole {
    const Slice& slice;
    Channel channel;
  };

  const Move& move_of(const Step& step) const {
    return plan_.moves[static_cast<std::size_t>(step.move)];
  }

  int chunk_in(const Whole& whole, int chunk) const {
    return chunk_in_channel(chunk, whole.channel.index, whole.channel.count, plan_.chunk_count);
  }

  const ChunkPlace& find_place(const ChunkRange& chunk) {
    const auto [known, is_new] = places_.try_emplace({chunk.giver, chunk.taker});
    if (is_new) known->second = place_of_(chunk);
    return known->second;
  }

  void add(int index) {
    const Move& move = plan_.moves[static_cast<std::size_t>(index)];
    const ChunkPlace& place = find_place(move.chunks);
    if (place.cut == nullptr) return;
    const Cut& cut = *place.cut;
    auto channel_of = cut.channel_of.begin();
    for (const auto& [lane, slices] : cut.slices) {
      const Channel channel{*channel_of++, cut.channels};
      StepList& list = lists_[lane];
      Step step;
      step.move = index;
      for (step.slice = 0; step.slice < std::ssize(slices); ++step.slice) {
        add(list, step, place, {slices[static_cast<std::size_t>(step.slice)], channel});
      }
    }
  }

  void add(StepList& list, Step step, const ChunkPlace& place, const Whole& whole) const {
    const Move& move = move_of(step);
    const ChunkExtent extent =
        extent_of_chunks(whole.slice, chunk_in(whole, move.chunks.begin),
                         chunk_in(whole, move.chunks.end), plan_.chunk_count);
    // A small slice has fewer elements than the plan has chunks, so some chunks are empty.  Every
    // member skips the same ones.
    if (extent.count() == 0) return;
    step.time = order_ == SliceOrder::in_sequence
                    ? step.slice
                    : step.slice / plan_.slices_at_once * interval_ + move.time;
    step.is_complete = move.is_complete;
    step.rows = extent.rows;
    step.columns = extent.columns;
    if (move.has_source) {
      const Shards from = {false, place.source, nullptr, cubes_.source};
      step.source = make_range(list, place, from, extent.at(at_of(whole, place.source_layout)),
                               place.source_layout);
    }
    if (move.stores && place.target != kNobody) {
      const Shards to = {true, place.target, nullptr, cubes_.target};
      step.target = make_range(list, place, to, extent.at(at_of(whole, place.target_layout)),
                               place.target_layout);
    }
    // A member that would only store a value that already lies in its output has nothing to do.
    if (move.stores && place.target == kNobody && move.to.empty()) return;  // it has the value
    step.taken = static_cast<std::uint32_t>(list.taken.size());
    for (const int held : move.held) add_held(list, step, held, whole);
    list.steps.push_back(step);
  }

  // Adds what an earlier move holds of the step's chunks.  Its value is numbered later.
  void add_held(StepList& list, Step& step, int move, const Whole& whole) const {
    const ChunkRange& held = plan_.moves[static_cast<std::size_t>(move)].chunks;
    const ChunkRange& own = move_of(step).chunks;
    const auto at = [&](int chunk) {
      return elements_before(whole.slice, chunk_in(whole, chunk), plan_.chunk_count);
    };
    const std::int64_t begin = at(std::max(held.begin, own.begin));
    const std::int64_t end = at(std::min(held.end, own.end));
    if (begin >= end) return;
    list.taken.push_back({move, begin - at(held.begin), end - begin});
    ++step.taken_count;
  }

  static const SliceAt& at_of(const Whole& whole, int layout) {
    return whole.slice.at[static_cast<std::size_t>(layout)];
  }

  ShardRange make_range(StepList& list, const ChunkPlace& place, Shards shards, const SliceAt& at,
                        int layout) const {
    shards.rectangle = place.rectangle;
    if (shards.rectangle == nullptr) {
      const BlockLayout& block = place.cut->layouts[static_cast<std::size_t>(layout)];
      shards.rectangle = &block.tensor->rectangles[static_cast<std::size_t>(at.rectangle)];
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
    if (list.taken.empty()) return;
    // Moves are numbered by the plan and values by the list, because several slices of one move
    // hold a value each.
    std::map<std::pair<int, int>, Step*> makers;  // by slice and move
    for (Step& step : list.steps) makers[{step.slice, step.move}] = &step;
    for (const Step& step : list.steps) {
      for (std::size_t i = 0; i < step.taken_count; ++i) {
        HeldElements& held = list.taken[step.taken + i];
        Step& maker = *makers.at({step.slice, held.value});
        if (maker.uses++ == 0) maker.held = list.held_count++;
        held.value = maker.held;
      }
    }
  }

  const Plan& plan_;
  const PlaceOf& place_of_;
  const CubeFilter cubes_;
  const SliceOrder order_;
  const int interval_ = slice_interval(plan_);
  std::map<std::pair<int, int>, ChunkPlace> places_;  // by giver and taker
  LaneSteps lists_;
};

}  // namespace

LaneSteps expand(const Plan& plan, const PlaceOf& find_place, const CubeFilter& cubes,
                 SliceOrder order) {
  return Expansion(plan, find_place, cubes, order).steps();
}

}  // namespace kernbench::ccl
