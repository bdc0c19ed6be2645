#include "ccl/algorithms/pairs.h"

namespace kernbench::ccl {

namespace {

// Blocks that travel `distance` positions ahead, as one member sees them.
class Pairs {
 public:
  Pairs(const PlanRequest& request, Plan& plan)
      : request_(request),
        plan_(plan),
        ring_(request.shape.ring),
        self_(ring_.position_of(request.self)) {}

  // Alternately ahead and back, so that both directions are busy.
  void add_all() {
    keep_own();
    int time = 0;
    for (int distance = 1; 2 * distance <= ring_.size(); ++distance) {
      const bool is_tie = 2 * distance == ring_.size();
      if (is_tie && has_ties()) {
        send_ahead(distance, time++, {0, 1});
        send_back_in_two(distance, time++);
        break;
      }
      send_ahead(distance, time++, {0, 2});
      if (!is_tie) send_ahead(ring_.size() - distance, time++, {0, 2});
    }
  }

 private:
  // True if members are all nodes of a ring, on which messages to the opposite side go ahead.
  bool has_ties() const {
    const GroupShape& shape = request_.shape;
    return request_.kind == Plan::Kind::all_to_all && shape.rows.size() == 1 && ring_.wraps() &&
           shape.size == shape.node_count && !shape.is_of_pes;
  }

  bool is_sent(int giver, int taker) const {
    if (request_.kind == Plan::Kind::gather) return taker == request_.root;
    return request_.kind != Plan::Kind::scatter || giver == request_.root;
  }

  Move& add(int time, const Chunk& chunk) {
    Move& move = plan_.moves.emplace_back();
    move.time = time;
    move.chunk = chunk;
    return move;
  }

  void keep_own() {
    if (!is_sent(request_.self, request_.self)) return;
    Move& move = add(0, {0, 2, request_.self, request_.self});
    move.has_source = move.stores = true;
  }

  // This member's part in the way of a block along `way`, positions after the giver's.
  void travel(int time, Chunk chunk, const std::vector<int>& way) {
    for (std::size_t stop = 0; stop < way.size(); ++stop) {
      const int giver = self_ - way[stop];  // whose block comes by here
      chunk.giver = ring_.at(giver);
      chunk.taker = ring_.at(giver + way.back());
      if (!is_sent(chunk.giver, chunk.taker)) continue;
      Move& move = add(time + static_cast<int>(stop), chunk);
      move.has_source = stop == 0;
      if (stop > 0) move.from = {ring_.at(giver + way[stop - 1])};
      move.stores = stop + 1 == way.size();
      if (!move.stores) move.to = {ring_.at(giver + way[stop + 1])};
    }
  }

  void send_ahead(int distance, int time, const Chunk& units) {
    travel(time, units, {0, distance});
  }
  // One position back, from where the rest is shorter that way.
  void send_back_in_two(int distance, int time) { travel(time, {1, 2}, {0, -1, -distance}); }

  const PlanRequest& request_;
  Plan& plan_;
  const Row& ring_;
  const int self_;
};

}  // namespace

void plan_pairs(const PlanRequest& request, Plan& plan) {
  plan.units = 2;
  plan.length = request.shape.size + 1;
  plan.width = 4;
  Pairs(request, plan).add_all();
}

}  // namespace kernbench::ccl
