#include "ccl/algorithms/pairs.h"

namespace kernbench::ccl {

namespace {

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
        position_(is_torus_ ? shape_.column_of(request.self)
                            : shape_.ring.position_of(request.self)),
        row_(is_torus_ ? shape_.row_of(request.self) : 0) {}

  // Alternately ahead and back, so that both directions are busy.
  void add_all() {
    keep_own();
    int time = 0;
    for (const int down : distances(shape_.size / width_)) {
      for (const int ahead : distances(width_)) {
        if (ahead == 0 && down == 0) continue;
        if (2 * ahead == width_ && has_ties()) {
          send(time++, {0, 1}, {{0, 0}, {ahead, 0}});
          // One position back, from where the rest is shorter that way.
          send(time++, {1, 2}, {{0, 0}, {-1, 0}, {-ahead, 0}});
        } else {
          send(time++, {0, 2}, {{0, 0}, {ahead, down}});
        }
      }
    }
  }

 private:
  // Positions ahead in a row, and rows down.
  struct Offset {
    int ahead = 0;
    int down = 0;
  };

  // On a torus all members are alike: they send along the same links at a time.  On other grids
  // the ring through all members is as good.
  static bool is_a_torus(const GroupShape& shape) {
    const auto closes = [](const Row& row) { return row.wraps() || row.size() == 2; };
    return !shape.is_of_pes && closes(shape.rows.front()) && closes(shape.columns.front());
  }

  // True if members are all nodes of a ring, on which messages to the opposite side go ahead.
  bool has_ties() const {
    return request_.kind == Plan::Kind::all_to_all && shape_.rows.size() == 1 &&
           shape_.ring.wraps() && shape_.size == shape_.node_count && !shape_.is_of_pes;
  }

  bool is_sent(int giver, int taker) const {
    return traits_of(request_.kind).is_sent(request_.root, giver, taker);
  }

  // The member so far from this one.
  int member(const Offset& way) const {
    if (!is_torus_) return shape_.ring.at(position_ + way.ahead);
    const int height = shape_.size / width_;
    const int row = (row_ + way.down + height) % height;
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
    Move& move = add(0, {0, 2, request_.self, request_.self});
    move.has_source = move.stores = true;
  }

  // This member's place on the way of a block, whose stops lie so far from its giver.
  void send(int time, ChunkRange chunks, const std::vector<Offset>& stops) {
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
      if (stop > 0) {
        move.from = {at(stop - 1)};
        move.stage = 1;  // all send before they wait for what is sent to them
      }
      move.stores = stop + 1 == stops.size();
      if (!move.stores) move.to = {at(stop + 1)};
    }
  }

  const PlanRequest& request_;
  Plan& plan_;
  const GroupShape& shape_;
  const bool is_torus_;
  const int width_;     // of the grid, or of all in one row
  const int position_;  // in the row
  const int row_;
};

}  // namespace

void plan_pairs(const PlanRequest& request, Plan& plan) {
  plan.chunk_count = 2;
  plan.length = request.shape.size + 1;
  plan.width = 4;
  Pairs(request, plan).add_all();
}

}  // namespace kernbench::ccl
