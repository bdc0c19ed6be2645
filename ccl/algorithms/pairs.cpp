#include "ccl/algorithms/pairs.h"

namespace kernbench::ccl {

namespace {

constexpr int kMostWays = 4;  // of a block; one of them has as many messages
constexpr int kWidth = 4;     // blocks of which some are under way, where they go in turn

// 0, 1, -1, 2, -2, ...: all distances in a dimension of `size`, the nearest first.
std::vector<int> distances(int size) {
  std::vector<int> all = {0};
  for (int distance = 1; 2 * distance <= size; ++distance) {
    all.push_back(distance);
    if (2 * distance < size) all.push_back(size - distance);
  }
  return all;
}

// Blocks that travel the same way from all members, as one member sees them.
class Pairs {
 public:
  Pairs(const PlanRequest& request, Plan& plan)
      : request_(request),
        plan_(plan),
        shape_(request.shape),
        is_torus_(is_a_torus(shape_)),
        width_(is_torus_ ? shape_.rows.front().size() : shape_.size),
        height_(shape_.size / width_),
        position_(is_torus_ ? shape_.column_of(request.self)
                            : shape_.ring.position_of(request.self)),
        row_(is_torus_ ? shape_.row_of(request.self) : 0) {}

  void add_in_turn() {
    keep_own();
    int time = 0;
    visit_others([&](const Offset& to) {
      for (const auto& [chunks, stops] : ways(to)) send(time++, chunks, stops);
    });
  }

  void add_at_once() {
    keep_own();
    int order = 0;
    visit_others([&](const Offset& to) { send(0, {0, plan_.chunk_count}, {{}, to}, order++); });
  }

  void add_spread() {
    keep_own();
    int order = 0;
    visit_others([&](const Offset& to) {
      for (const auto& [chunks, stops] : ways(to)) send(0, chunks, stops, order++);
    });
  }

 private:
  // Positions ahead in a row, and rows down.
  struct Offset {
    int ahead = 0;
    int down = 0;
  };
  // Some chunks of a block, and where they stop.
  struct Way {
    ChunkRange chunks;
    std::vector<Offset> stops;
  };

  // Alternately ahead and back, and along rows and columns, so that all links are busy.
  template <class Visit>
  void visit_others(const Visit& visit) const {
    const std::vector<int> aheads = distances(width_);
    const std::vector<int> downs = distances(height_);
    for (std::size_t diagonal = 0; diagonal < downs.size(); ++diagonal) {
      for (std::size_t i = 0; i < aheads.size(); ++i) {
        const Offset to{aheads[i], downs[(i + diagonal) % downs.size()]};
        if (to.ahead != 0 || to.down != 0) visit(to);
      }
    }
  }

  // On a torus all members are alike: they send along the same links at a time.  On other grids
  // the ring through all members is as good.
  static bool is_a_torus(const GroupShape& shape) {
    const auto closes = [](const Row& row) { return row.wraps() || row.size() == 2; };
    return !shape.is_of_pes && closes(shape.rows.front()) && closes(shape.columns.front());
  }

  // True if members are all nodes of a grid on which a message goes along the row first, and to the
  // opposite side of a ring always ahead.
  bool has_rings() const {
    const bool is_line = shape_.rows.size() == 1 || shape_.columns.size() == 1;
    const bool is_ring = is_line && shape_.ring.wraps() && !shape_.is_of_pes;
    return (is_torus_ || is_ring) && !shape_.joins_all && !shape_.spans_nodes &&
           shape_.size == shape_.node_count;
  }

  // Halves of what goes to the opposite side of a ring travel either way round.  Around one root,
  // the links along columns would carry nearly all, so that half goes along the column first.
  //
  //     ahead    | (0, 0)                                         (a, d)
  //     back     | (0, 0)   (-1, -1)                              (-a, -d)
  //     down     | (0, 0)              (0, d)                     (a, d)
  //     up       | (0, 0)   (0, -1)    (0, -d)     (-1, -d)       (-a, -d)
  std::vector<Way> ways(const Offset& to) const {
    if (!has_rings()) return {{{0, plan_.chunk_count}, {{}, to}}};
    const int step_back = 2 * to.ahead == width_ && width_ > 2 ? -1 : 0;
    const int step_up = 2 * to.down == height_ && height_ > 2 ? -1 : 0;
    const Offset other{step_back != 0 ? -to.ahead : to.ahead, step_up != 0 ? -to.down : to.down};
    const bool has_ties = step_back != 0 || step_up != 0;
    const bool has_columns =
        request_.kind != Plan::Kind::all_to_all && to.ahead != 0 && to.down != 0;
    std::vector<Way> all;
    all.push_back({{}, {{}, to}});
    if (has_ties) all.push_back({{}, {{}, {step_back, step_up}, other}});
    if (has_columns) all.push_back({{}, {{}, {0, to.down}, to}});
    if (has_columns && has_ties) all.push_back({{}, {{}}});
    if (has_columns && has_ties) {
      std::vector<Offset>& stops = all.back().stops;
      if (step_up != 0) stops.push_back({0, -1});
      stops.push_back({0, other.down});
      if (step_back != 0) stops.push_back({-1, other.down});
      stops.push_back(other);
    }
    const int share = plan_.chunk_count / static_cast<int>(all.size());
    for (int i = 0; i < static_cast<int>(all.size()); ++i) {
      all[static_cast<std::size_t>(i)].chunks = {i * share, (i + 1) * share};
    }
    return all;
  }

  bool is_sent(int giver, int taker) const {
    return traits_of(request_.kind).is_sent(request_.root, giver, taker);
  }

  // The member so far from this one.
  int member(const Offset& way) const {
    if (!is_torus_) return shape_.ring.at(position_ + way.ahead);
    const int row = ((row_ + way.down) % height_ + height_) % height_;
    return shape_.rows[static_cast<std::size_t>(row)].at(position_ + way.ahead);
  }

  Move& add(int time, const ChunkRange& chunks) {
    Move& move = plan_.moves.emplace_back();
    move.time = time;
    move.chunks = chunks;
    return move;
  }

  void keep_own() {
    if (!is_sent(request_.self, request_.self)) return;
    Move& move = add(0, {0, plan_.chunk_count, request_.self, request_.self});
    move.has_source = move.stores = true;
    move.stage = first_receipt() - 1;  // others wait for what is sent, and none for this
  }

  int first_receipt() const { return kMostWays * shape_.size; }

  // This member's place on the way of a block, whose stops lie so far from its giver.  At one time,
  // blocks are sent and received in `order`.
  void send(int time, ChunkRange chunks, const std::vector<Offset>& stops, int order = 0) {
    for (std::size_t stop = 0; stop < stops.size(); ++stop) {
      // The member where the block, which comes by here at this stop, is at another one.
      const auto at = [&](std::size_t other) {
        return member(
            {stops[other].ahead - stops[stop].ahead, stops[other].down - stops[stop].down});
      };
      chunks.giver = at(0);
      chunks.taker = at(stops.size() - 1);
      if (!is_sent(chunks.giver, chunks.taker)) continue;
      Move& move = add(time + static_cast<int>(stop), chunks);
      move.has_source = stop == 0;
      move.stage = order;
      if (stop > 0) {
        move.from = {at(stop - 1)};
        // All send before they wait for what is sent to them.
        move.stage += static_cast<int>(stop) * first_receipt();
      }
      move.stores = stop + 1 == stops.size();
      if (!move.stores) move.to = {at(stop + 1)};
    }
  }

  const PlanRequest& request_;
  Plan& plan_;
  const GroupShape& shape_;
  const bool is_torus_;
  const int width_;  // of the grid, or of all in one row
  const int height_;
  const int position_;  // in the row
  const int row_;
};

}  // namespace

void plan_pairs(const PlanRequest& request, Plan& plan) {
  plan.chunk_count = kMostWays;
  plan.length = request.shape.size + 1;
  plan.width = kWidth;
  plan.slices_at_once = 1;
  Pairs(request, plan).add_in_turn();
}

void plan_pairs_at_once(const PlanRequest& request, Plan& plan) {
  plan.length = 2;
  plan.width = request.shape.size;
  plan.slices_at_once = 1;
  Pairs(request, plan).add_at_once();
}

void plan_pairs_spread(const PlanRequest& request, Plan& plan) {
  plan.chunk_count = kMostWays;
  plan.length = kMostWays + 1;
  plan.width = request.shape.size;
  plan.slices_at_once = 1;
  Pairs(request, plan).add_spread();
}

}  // namespace kernbench::ccl
