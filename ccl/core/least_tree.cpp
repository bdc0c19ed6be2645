#include "ccl/core/least_tree.h"

#include <algorithm>
#include <limits>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

namespace {

using Members = std::vector<int>;

int& in(Members& list, int member) {
  return list[static_cast<std::size_t>(member)];
}
int in(const Members& list, int member) {
  return list[static_cast<std::size_t>(member)];
}

// The search for one tree.  Its vertices are the members and, after them, the cycles that were
// found on the way, each of which takes the place of its vertices.
class TreeSearch {
 public:
  TreeSearch(const MessageCosts& costs, int root)
      : members_(costs.size()),
        root_(root),
        capacity_(2 * costs.size()),
        messages_(static_cast<std::size_t>(capacity_ * capacity_)),
        vertices_(static_cast<std::size_t>(capacity_)) {
    for (int from = 0; from < members_; ++from) {
      remaining_.push_back(from);
      for (int to = 0; to < members_; ++to) message(from, to) = {costs.at(from, to), from, to};
    }
  }

  Members run() {
    while (true) {
      choose_senders();
      std::vector<int> cycle = find_cycle();
      if (cycle.empty()) break;
      contract(cycle);
    }
    break_cycles();
    Members senders(static_cast<std::size_t>(members_), kNobody);
    for (int member = 0; member < members_; ++member) {
      if (member != root_) in(senders, member) = vertex(member).reached_by.giver;
    }
    return senders;
  }

 private:
  // The members between which the cheapest message from one vertex to another goes, and what it
  // costs more than the message that it would replace.
  struct Message {
    double cost = 0;
    int giver = kNobody;
    int taker = kNobody;
  };
  struct Vertex {
    int sender = kNobody;  // the vertex that reaches it at the least cost
    Message reached_by;
    int cycle = kNobody;  // the vertex that took its place
  };

  Message& message(int from, int to) {
    return messages_[static_cast<std::size_t>(from * capacity_ + to)];
  }
  Vertex& vertex(int number) { return vertices_[static_cast<std::size_t>(number)]; }

  void choose_senders() {
    for (const int to : remaining_) {
      if (to == root_) continue;
      Vertex& reached = vertex(to);
      reached.sender = kNobody;
      for (const int from : remaining_) {
        if (from == to) continue;
        const Message& other = message(from, to);
        if (reached.sender != kNobody && other.cost >= reached.reached_by.cost) continue;
        reached.sender = from;
        reached.reached_by = other;
      }
    }
  }

  // Returns vertices that only reach each other; nothing if all are reached from the root.
  std::vector<int> find_cycle() {
    for (const int start : remaining_) {
      int at = start;
      for (std::size_t i = 0; i < remaining_.size() && at != kNobody; ++i) at = vertex(at).sender;
      if (at == kNobody) continue;
      std::vector<int> cycle = {at};
      for (int next = vertex(at).sender; next != at; next = vertex(next).sender) {
        cycle.push_back(next);
      }
      return cycle;
    }
    return {};
  }

  void contract(const std::vector<int>& cycle) {
    const int whole = count_++;
    for (const int part : cycle) vertex(part).cycle = whole;
    std::erase_if(remaining_, [&](int number) { return vertex(number).cycle != kNobody; });
    for (const int other : remaining_) {
      Message& entry = message(other, whole);
      Message& exit = message(whole, other);
      for (const int part : cycle) {
        Message into = message(other, part);
        into.cost -= vertex(part).reached_by.cost;
        if (entry.giver == kNobody || into.cost < entry.cost) entry = into;
        const Message& out = message(part, other);
        if (exit.giver == kNobody || out.cost < exit.cost) exit = out;
      }
    }
    remaining_.push_back(whole);
  }

  // A cycle is entered at one of its vertices, which its own sender then need not reach.
  void break_cycles() {
    for (int whole = count_ - 1; whole >= members_; --whole) {
      const Message& entry = vertex(whole).reached_by;
      int part = entry.taker;
      while (vertex(part).cycle != whole) part = vertex(part).cycle;
      vertex(part).reached_by = entry;
    }
  }

  int members_;
  int root_;
  int capacity_;  // each cycle has two vertices or more, so there are fewer cycles than members
  int count_ = members_;
  std::vector<Message> messages_;
  std::vector<Vertex> vertices_;
  std::vector<int> remaining_;  // those that no cycle replaced
};

}  // namespace

MessageCosts MessageCosts::reversed() const {
  MessageCosts other(size_);
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) other.at(to, from) = at(from, to);
  }
  return other;
}

std::vector<int> least_tree(const MessageCosts& costs, int root) {
  return TreeSearch(costs, root).run();
}

double cost_of_tree(const MessageCosts& costs, const std::vector<int>& inner) {
  double sum = 0;
  for (int member = 0; member < costs.size(); ++member) {
    const int sender = in(inner, member);
    if (sender != kNobody) sum += costs.at(sender, member);
  }
  return sum;
}

std::vector<int> least_way(const MessageCosts& costs, int from, int to) {
  std::vector<double> reached(static_cast<std::size_t>(costs.size()),
                              std::numeric_limits<double>::max());
  Members before(reached.size(), kNobody);
  reached[static_cast<std::size_t>(from)] = 0;
  for (int round = 1; round < costs.size(); ++round) {
    for (int at = 0; at < costs.size(); ++at) {
      for (int next = 0; next < costs.size(); ++next) {
        if (at == next || next == from) continue;
        const double cost = reached[static_cast<std::size_t>(at)] + costs.at(at, next);
        if (cost >= reached[static_cast<std::size_t>(next)]) continue;
        reached[static_cast<std::size_t>(next)] = cost;
        in(before, next) = at;
      }
    }
  }
  Members way = {to};
  while (way.back() != from) way.push_back(in(before, way.back()));
  std::ranges::reverse(way);
  return way;
}

}  // namespace kernbench::ccl
