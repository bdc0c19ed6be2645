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

// Returns for each member but the root the one that reaches it at the least cost.
Members cheapest_senders(const MessageCosts& costs, int root) {
  Members best(static_cast<std::size_t>(costs.size()), kNobody);
  for (int to = 0; to < costs.size(); ++to) {
    for (int from = 0; from < costs.size() && to != root; ++from) {
      if (from == to) continue;
      int& known = in(best, to);
      if (known == kNobody || costs.at(from, to) < costs.at(known, to)) known = from;
    }
  }
  return best;
}

// Members that only reach each other; empty if all are reached from the root.
Members find_cycle(const Members& senders) {
  for (int start = 0; start < static_cast<int>(senders.size()); ++start) {
    int at = start;
    for (std::size_t i = 0; i < senders.size() && at != kNobody; ++i) at = in(senders, at);
    if (at == kNobody) continue;
    Members cycle = {at};
    for (int next = in(senders, at); next != at; next = in(senders, next)) cycle.push_back(next);
    return cycle;
  }
  return {};
}

// The same members with those of a cycle as one, the last.
class Contracted {
 public:
  Contracted(const MessageCosts& costs, const Members& senders, const Members& cycle)
      : number_(static_cast<std::size_t>(costs.size()), kNobody), costs_(count(costs, cycle)) {
    const int whole = costs_.size() - 1;
    enters_.assign(static_cast<std::size_t>(whole), cycle.front());
    leaves_ = enters_;
    for (const int from : outside_) {
      for (const int to : outside_) {
        if (from != to) costs_.at(in(number_, from), in(number_, to)) = costs.at(from, to);
      }
      const auto entry = [&](int to) { return costs.at(from, to) - costs.at(in(senders, to), to); };
      const auto exit = [&](int at) { return costs.at(at, from); };
      const int number = in(number_, from);
      in(enters_, number) = *std::ranges::min_element(cycle, {}, entry);
      in(leaves_, number) = *std::ranges::min_element(cycle, {}, exit);
      costs_.at(number, whole) = entry(in(enters_, number));
      costs_.at(whole, number) = exit(in(leaves_, number));
    }
  }

  const MessageCosts& costs() const { return costs_; }
  int number(int member) const { return in(number_, member); }

  // Breaks the cycle where the tree over the contracted members enters it.
  Members expanded(const Members& tree, Members senders) const {
    const int whole = costs_.size() - 1;
    for (const int member : outside_) {
      const int sender = in(tree, in(number_, member));
      if (sender == kNobody) continue;
      in(senders, member) =
          sender == whole ? in(leaves_, in(number_, member)) : in(outside_, sender);
    }
    const int sender = in(tree, whole);
    in(senders, in(enters_, sender)) = in(outside_, sender);
    return senders;
  }

 private:
  int count(const MessageCosts& costs, const Members& cycle) {
    for (int member = 0; member < costs.size(); ++member) {
      if (std::ranges::find(cycle, member) != cycle.end()) continue;
      in(number_, member) = static_cast<int>(outside_.size());
      outside_.push_back(member);
    }
    return static_cast<int>(outside_.size()) + 1;
  }

  Members number_;   // by member, its number among the contracted ones
  Members outside_;  // by that number
  Members enters_;   // by that number, the member of the cycle that it reaches at the least cost
  Members leaves_;   // and the one that reaches it
  MessageCosts costs_;
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
  const Members senders = cheapest_senders(costs, root);
  const Members cycle = find_cycle(senders);
  if (cycle.empty()) return senders;
  const Contracted contracted(costs, senders, cycle);
  return contracted.expanded(least_tree(contracted.costs(), contracted.number(root)), senders);
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
