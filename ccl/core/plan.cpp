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

Move& Plan::reduce(const ChunkRange& chunks, const Branch& up, int time) {
  Move& move = moves.emplace_back();
  move.time = time - up.distance;
  move.chunks = chunks;
  move.from = up.outer;
  move.has_source = true;
  if (up.inner != kNobody) {
    move.to = {up.inner};
  } else {
    move.is_complete = move.stores = true;
  }
  return move;
}

Move& Plan::broadcast(const ChunkRange& chunks, const Branch& down, int time) {
  Move& move = moves.emplace_back();
  move.time = time + down.distance;
  move.chunks = chunks;
  move.has_source = down.inner == kNobody;
  if (down.inner != kNobody) move.from = {down.inner};
  move.to = down.outer;
  move.stores = true;
  return move;
}

int Plan::all_reduce(const ChunkRange& chunks, const Branch& up, const Branch& down, int time) {
  Move& move = reduce(chunks, up, time);
  if (up.inner == kNobody) {
    move.to = down.outer;
  } else {
    broadcast(chunks, down, time);
  }
  return static_cast<int>(moves.size()) - 1;
}

void Plan::along(int target, ChunkRange chunks, const Branch& up, const Branch& down, int depth) {
  switch (kind_) {
    case Kind::all_gather:
      chunks.giver = target;
      broadcast(chunks, down, 0);
      break;
    case Kind::reduce_scatter:
      chunks.taker = target;
      reduce(chunks, up, depth);
      break;
    default:
      all_reduce(chunks, up, down, depth);
      break;
  }
}

int Plan::most_chunks() const {
  int most = 1;
  for (const Move& move : moves) most = std::max(most, move.chunks.count());
  return most;
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
