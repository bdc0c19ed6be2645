#include "ccl/core/flow_graph.h"

#include <algorithm>
#include <map>

namespace kernbench::ccl {

namespace {

constexpr int kNone = -1;

}  // namespace

FlowGraph::FlowGraph(int size, const std::set<std::pair<int, int>>& links) : size_(size) {
  std::map<std::pair<int, int>, int> numbers;
  for (const auto& link : links) {
    numbers.emplace(link, arc_count());
    arcs_.push_back({.from = link.first, .to = link.second});
  }
  for (Arc& arc : arcs_) arc.twin = numbers.at({arc.to, arc.from});
  for (int member = 0; member <= size; ++member) {
    const auto first = std::ranges::lower_bound(arcs_, member, {}, &Arc::from);
    first_arcs_.push_back(static_cast<int>(first - arcs_.begin()));
  }
}

std::vector<int> FlowGraph::find_way(const Capacities& left, int root, int member) const {
  std::vector<int> arriving(as_index(size_), kNone);
  std::vector<int> queue = {root};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (int number = first_arc(queue[i]); number < first_arc(queue[i] + 1); ++number) {
      const int to = arc(number).to;
      const bool is_new = to != root && arriving[as_index(to)] == kNone;
      if (!is_new || left[as_index(number)] == 0) continue;
      arriving[as_index(to)] = number;
      if (to == member) return arriving;
      queue.push_back(to);
    }
  }
  return arriving;
}

bool FlowGraph::take_way(Capacities& left, int root, int member) const {
  const std::vector<int> arriving = find_way(left, root, member);
  if (arriving[as_index(member)] == kNone) return false;
  for (int at = member; at != root;) {
    const int number = arriving[as_index(at)];
    --left[as_index(number)];
    ++left[as_index(arc(number).twin)];
    at = arc(number).from;
  }
  return true;
}

std::vector<bool> FlowGraph::reached(const Capacities& left, int root) const {
  const std::vector<int> arriving = find_way(left, root, kNone);
  std::vector<bool> reached;
  for (int member = 0; member < size_; ++member) {
    reached.push_back(member == root || arriving[as_index(member)] != kNone);
  }
  return reached;
}

namespace {

// Returns what each link out of the members that are reached carries at least, if one way leads to
// each of the others.
double load_of_cut(const FlowGraph& graph, const std::vector<bool>& reached) {
  int links = 0;
  for (int number = 0; number < graph.arc_count(); ++number) {
    const FlowGraph::Arc& arc = graph.arc(number);
    if (reached[as_index(arc.from)] && !reached[as_index(arc.to)]) ++links;
  }
  return static_cast<double>(std::ranges::count(reached, false)) / links;
}

// Takes one way from the root to the member out of what goes over each arc.
std::vector<int> take_out(const FlowGraph& graph, std::vector<int>& carried, int root, int member) {
  std::vector<int> way = {member};
  while (way.back() != root) {
    const int at = way.back();
    int most = graph.arc(graph.first_arc(at)).twin;  // of the arcs into the member
    for (int number = graph.first_arc(at); number < graph.first_arc(at + 1); ++number) {
      const int twin = graph.arc(number).twin;
      if (carried[as_index(twin)] > carried[as_index(most)]) most = twin;
    }
    --carried[as_index(most)];
    const int from = graph.arc(most).from;
    way.erase(std::ranges::find(way, from), way.end());  // a round is none of the way
    way.push_back(from);
  }
  std::ranges::reverse(way);
  return way;
}

}  // namespace

SpreadWays spread_ways(const FlowGraph& graph, int root, int chunk_count) {
  SpreadWays spread{chunk_count, {}};
  FlowGraph::Capacities left(as_index(graph.arc_count()), 0);
  for (int chunk = 0; chunk < chunk_count; ++chunk) {
    for (int member = 0; member < graph.size(); ++member) {
      while (member != root && !graph.take_way(left, root, member)) {
        spread.least_load =
            std::max(spread.least_load, load_of_cut(graph, graph.reached(left, root)));
        ++spread.most;
        for (int& one : left) ++one;
      }
    }
  }
  std::vector<int> carried;
  for (const int one : left) carried.push_back(spread.most - one);
  for (int chunk = 0; chunk < chunk_count; ++chunk) {
    for (int member = 0; member < graph.size(); ++member) {
      if (member != root) spread.ways.push_back(take_out(graph, carried, root, member));
    }
  }
  return spread;
}

}  // namespace kernbench::ccl
