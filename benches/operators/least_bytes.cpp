#include "benches/operators/least_bytes.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace kernbench::benches::operators {

namespace {

Bytes count_bytes(const Definition& definition, const Node& node, std::int64_t tokens) {
  const std::int64_t rows = node.extents.rows == Rows::tokens    ? tokens
                            : node.extents.rows == Rows::experts ? expert_count(definition.inputs)
                                                                 : 1;
  return rows * node.extents.columns * size_of(node.dtype);
}

// The minimum cut between two vertices, as the maximum flow (Edmonds and Karp, 1972).
class Network {
 public:
  static constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

  explicit Network(std::size_t vertices) : edges_of_(vertices) {}

  void add(std::size_t from, std::size_t to, Bytes capacity) {
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
  }

  // REQUIRES: every path has an edge that is not unlimited
  Bytes minimum_cut(std::size_t source, std::size_t sink) {
    Bytes flow = 0;
    while (const Bytes more = augment(source, sink)) flow += more;
    return flow;
  }

 private:
  struct Edge {
    std::size_t to = 0;
    Bytes room = 0;
  };
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // Augments the flow along a shortest path with room; returns 0 if there is none.  Edges come in
  // pairs, forth and back.
  Bytes augment(std::size_t source, std::size_t sink) {
    std::vector<std::size_t> edge_to(edges_of_.size(), kNone);
    std::queue<std::size_t> reached({source});
    while (!reached.empty() && edge_to[sink] == kNone) {
      for (const std::size_t edge : edges_of_[reached.front()]) {
        const std::size_t to = edges_[edge].to;
        if (edges_[edge].room == 0 || to == source || edge_to[to] != kNone) continue;
        edge_to[to] = edge;
        reached.push(to);
      }
      reached.pop();
    }
    if (edge_to[sink] == kNone) return 0;
    Bytes room = kUnlimited;
    const auto for_each_edge = [&](const auto& function) {
      for (std::size_t at = sink; at != source; at = edges_[edge_to[at] ^ 1].to) {
        function(edge_to[at]);
      }
    };
    for_each_edge([&](std::size_t edge) { room = std::min(room, edges_[edge].room); });
    for_each_edge([&](std::size_t edge) {
      if (edges_[edge].room != kUnlimited) edges_[edge].room -= room;
      if (edges_[edge ^ 1].room != kUnlimited) edges_[edge ^ 1].room += room;
    });
    return room;
  }

  std::vector<Edge> edges_;
  std::vector<std::vector<std::size_t>> edges_of_;
};

// The traffic of the nodes that backward needs.
class BackwardBytes {
 public:
  BackwardBytes(const Definition& definition, std::int64_t tokens)
      : definition_(definition),
        tokens_(tokens),
        results_(definition.results(Direction::backward)),
        is_needed_(reachable(*definition.graph, results_, {})),
        is_of_upstream_(is_needed_.size(), false) {
    for (const NodeId id : definition.upstream) is_of_upstream_[index_of(id)] = true;
    for (NodeId id = 0; id < definition.graph->size(); ++id) {
      for (const NodeId operand : definition.node(id).operand_ids()) {
        if (is_of_upstream_[index_of(operand)]) is_of_upstream_[index_of(id)] = true;
      }
    }
  }

  Bytes upstream_bytes() const {
    Bytes bytes = 0;
    for (const NodeId id : definition_.upstream) {
      // An upstream gradient that is itself a gradient, and no operand, is never loaded.
      if (is_operand(id)) bytes += count_bytes(definition_, definition_.node(id), tokens_);
    }
    return bytes;
  }

  Bytes least_saved_bytes() const {
    const std::size_t count = is_needed_.size();
    const std::size_t source = 2 * count;
    const std::size_t sink = source + 1;
    const auto in = [](NodeId id) { return 2 * index_of(id); };
    const auto out = [](NodeId id) { return 2 * index_of(id) + 1; };
    Network network(2 * count + 2);
    for (NodeId id = 0; id < definition_.graph->size(); ++id) {
      if (!is_needed_[index_of(id)]) continue;
      const Node& node = definition_.node(id);
      const bool is_of_upstream = is_of_upstream_[index_of(id)];
      if (!is_of_upstream) {
        network.add(in(id), out(id), count_bytes(definition_, node, tokens_));
        if (node.op == Op::input) network.add(source, in(id), Network::kUnlimited);
      }
      for (const NodeId operand : node.operand_ids()) {
        if (is_of_upstream_[index_of(operand)]) continue;
        network.add(out(operand), is_of_upstream ? sink : in(id), Network::kUnlimited);
      }
    }
    return network.minimum_cut(source, sink);
  }

 private:
  bool is_operand(NodeId wanted) const {
    for (NodeId id = 0; id < definition_.graph->size(); ++id) {
      if (!is_needed_[index_of(id)]) continue;
      const auto operands = definition_.node(id).operand_ids();
      if (std::ranges::find(operands, wanted) != operands.end()) return true;
    }
    return false;
  }

  const Definition& definition_;
  const std::int64_t tokens_;
  const std::vector<NodeId> results_;
  const std::vector<bool> is_needed_;  // by node
  std::vector<bool> is_of_upstream_;   // whether it depends on upstream gradients
};

Bytes input_bytes(const Definition& definition, std::int64_t tokens) {
  const std::vector<bool> is_needed = reachable(*definition.graph, definition.outputs, {});
  Bytes bytes = 0;
  for (NodeId id = 0; id < definition.graph->size(); ++id) {
    const Node& node = definition.node(id);
    if (is_needed[index_of(id)] && node.op == Op::input)
      bytes += count_bytes(definition, node, tokens);
  }
  return bytes;
}

// Each value counts once; a result that is itself an input is not stored again.
Bytes result_bytes(const Definition& definition, Direction direction, std::int64_t tokens) {
  std::vector<NodeId> results = definition.results(direction);
  std::ranges::sort(results);
  const auto repeated = std::ranges::unique(results);
  results.erase(repeated.begin(), repeated.end());
  Bytes bytes = 0;
  for (const NodeId id : results) {
    const Node& node = definition.node(id);
    if (node.op != Op::input) bytes += count_bytes(definition, node, tokens);
  }
  return bytes;
}

}  // namespace

Bytes least_bytes(const Definition& definition, Direction direction, std::int64_t tokens) {
  const Bytes stored = result_bytes(definition, direction, tokens);
  if (direction == Direction::forward) return stored + input_bytes(definition, tokens);
  const BackwardBytes backward(definition, tokens);
  return stored + backward.upstream_bytes() + backward.least_saved_bytes();
}

}  // namespace kernbench::benches::operators
