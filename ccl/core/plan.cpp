#include "ccl/core/plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kernbench::ccl {

Branch branch_of(const std::vector<int>& inner, int member) {
  Branch branch;
  if (inner.empty()) return branch;
  branch.inner = inner[static_cast<std::size_t>(member)];
  for (int at = branch.inner; at != kNobody; at = inner[static_cast<std::size_t>(at)]) {
    branch.distance += kTimesOfHop;
  }
  for (std::size_t other = 0; other < inner.size(); ++other) {
    if (inner[other] == member) branch.outer.push_back(static_cast<int>(other));
  }
  return branch;
}

Move& Plan::reduce(const Chunk& chunk, const Branch& up, int time) {
  Move& move = moves.emplace_back();
  move.time = time - up.distance;
  move.chunk = chunk;
  move.from = up.outer;
  move.has_source = true;
  if (up.inner != kNobody) {
    move.to = {up.inner};
  } else {
    move.is_complete = move.stores = true;
  }
  return move;
}

Move& Plan::broadcast(const Chunk& chunk, const Branch& down, int time) {
  Move& move = moves.emplace_back();
  move.time = time + down.distance;
  move.chunk = chunk;
  move.has_source = down.inner == kNobody;
  if (down.inner != kNobody) move.from = {down.inner};
  move.to = down.outer;
  move.stores = true;
  return move;
}

int Plan::all_reduce(const Chunk& chunk, const Branch& up, const Branch& down, int time) {
  Move& move = reduce(chunk, up, time);
  if (up.inner == kNobody) {
    move.to = down.outer;
  } else {
    broadcast(chunk, down, time);
  }
  return static_cast<int>(moves.size()) - 1;
}

void Plan::along(int target, Chunk chunk, const Branch& up, const Branch& down, int depth) {
  switch (kind_) {
    case Kind::all_gather:
      chunk.giver = target;
      broadcast(chunk, down, 0);
      break;
    case Kind::reduce_scatter:
      chunk.taker = target;
      reduce(chunk, up, depth);
      break;
    default:
      all_reduce(chunk, up, down, depth);
      break;
  }
}

int Plan::largest_chunk() const {
  int largest = 1;
  for (const Move& move : moves) largest = std::max(largest, move.chunk.end - move.chunk.begin);
  return largest;
}

int Plan::burst() const {
  std::map<std::pair<int, int>, int> counts;  // by node and time
  for (const Move& move : moves) {
    for (const int to : move.to) ++counts[{to, move.time}];
  }
  int most = 0;
  for (const auto& [at, count] : counts) {
    const auto next = counts.find({at.first, at.second + 1});
    most = std::max(most, count + (next == counts.end() ? 0 : next->second));
  }
  return most;
}

}  // namespace kernbench::ccl
