#include "runtime/context/deadlock_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "runtime/context/simulation.h"

namespace kernbench::runtime {

namespace {

constexpr std::size_t kMostLines = 24;

const FiberLocal& local_of(const Fiber& fiber) {
  return *static_cast<const FiberLocal*>(fiber.local());
}

// Those that wait for each other in a circle; empty if none do.  Each waits for one other at most,
// so the walk from any of them ends or closes.
template <class Node>
std::vector<Node> find_cycle(const std::map<Node, Node>& waits_for) {
  std::set<Node> seen;
  for (const auto& [start, unused] : waits_for) {
    std::vector<Node> walk;
    for (Node at = start; waits_for.contains(at); at = waits_for.at(at)) {
      if (const auto again = std::ranges::find(walk, at); again != walk.end()) {
        return {again, walk.end()};
      }
      if (!seen.insert(at).second) break;
      walk.push_back(at);
    }
  }
  return {};
}

std::set<sim::PeLocation> pes_that_run(const std::vector<Fiber*>& fibers) {
  std::set<sim::PeLocation> pes;
  for (const Fiber* fiber : fibers) {
    if (local_of(*fiber).kind == FiberLocal::Kind::kernel) pes.insert(local_of(*fiber).pe);
  }
  return pes;
}

std::string describe_wait(const Fiber& fiber, const std::set<sim::PeLocation>& running) {
  const FiberLocal& local = local_of(fiber);
  std::string text = fmt::format("\n  {} waits for {} since t={}", fiber.name(), fiber.waits_for(),
                                 to_string(local.waits_since.value_or(fiber.waits_since())));
  if (local.collective) text += fmt::format(", in {}", local.collective.describe());
  if (local.waits_for && !running.contains(*local.waits_for)) {
    text += fmt::format("; {} runs no kernel", to_string(*local.waits_for));
  }
  return text;
}

std::string name_of_node(const sim::PeLocation& pe) {
  return to_string(pe);
}
std::string name_of_node(int rank) {
  return fmt::format("rank {}", rank);
}

template <class Node>
std::string describe_cycle(const std::map<Node, Node>& waits_for) {
  const std::vector<Node> cycle = find_cycle(waits_for);
  if (cycle.empty()) return {};
  std::vector<std::string> names;
  for (const Node& node : cycle) names.push_back(name_of_node(node));
  names.push_back(names.front());
  return fmt::format("\n  wait-for cycle: {}", fmt::join(names, " -> "));
}

// Of kernels for each other's queues, and of ranks for each other's messages.
std::string describe_cycles(const std::vector<Fiber*>& fibers) {
  std::map<sim::PeLocation, sim::PeLocation> kernels;
  std::set<sim::PeLocation> ambiguous;  // several of their kernels wait, for one end or another
  std::map<int, int> ranks;
  for (const Fiber* fiber : fibers) {
    const FiberLocal& local = local_of(*fiber);
    if (local.waits_for && !kernels.emplace(local.pe, *local.waits_for).second) {
      ambiguous.insert(local.pe);
    }
    if (local.waits_for_rank) ranks.emplace(local.rank, *local.waits_for_rank);
  }
  for (const sim::PeLocation& pe : ambiguous) kernels.erase(pe);
  return describe_cycle(kernels) + describe_cycle(ranks);
}

// How deep full queues would have to be at least, for their senders to go on.
std::string describe_depth(const std::vector<Fiber*>& fibers) {
  int depth = 0;
  for (const Fiber* fiber : fibers) depth = std::max(depth, local_of(*fiber).full_depth);
  if (depth == 0) return {};
  return fmt::format("\n  hint: queues are full: this needs depth >= {}, or a recv before the send",
                     depth + 1);
}

}  // namespace

DeadlockError deadlock_error(Simulation& simulation) {
  const std::vector<Fiber*> fibers = simulation.fibers().live();
  const auto is_rank = [](const Fiber* fiber) {
    return local_of(*fiber).kind == FiberLocal::Kind::rank;
  };
  const auto ranks = std::ranges::count_if(fibers, is_rank);
  std::string text =
      fmt::format("deadlock: {} ranks and {} kernels blocked, no event pending at t={}", ranks,
                  static_cast<std::ptrdiff_t>(fibers.size()) - ranks, to_string(simulation.now()));
  const std::set<sim::PeLocation> running = pes_that_run(fibers);
  std::size_t lines = 0;
  for (const bool wanted : {true, false}) {  // ranks first
    for (const Fiber* fiber : fibers) {
      if (is_rank(fiber) != wanted || ++lines > kMostLines) continue;
      text += describe_wait(*fiber, running);
    }
  }
  if (lines > kMostLines) text += fmt::format("\n  and {} more", lines - kMostLines);
  return {"KB-D001", text + describe_cycles(fibers) + describe_depth(fibers)};
}

}  // namespace kernbench::runtime
