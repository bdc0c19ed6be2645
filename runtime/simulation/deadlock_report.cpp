#include "runtime/simulation/deadlock_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/simulation/simulation.h"
#include "sim_engine/components/machine_faults.h"

namespace kernbench::runtime {

namespace {

constexpr std::size_t kMostWaiters = 24;

const FiberLocal& local_of(const Fiber& fiber) {
  return *static_cast<const FiberLocal*>(fiber.local());
}

// Maps each waiting node to the nodes that it waits for.
template <class Node>
using WaitsFor = std::map<Node, std::vector<Node>>;

// Follows the waits until a path returns to one of its own nodes.
template <class Node>
class CycleSearch {
 public:
  explicit CycleSearch(const WaitsFor<Node>& waits_for) : waits_for_(waits_for) {}

  // Returns the nodes of a cycle of waits; empty if there is none.
  std::vector<Node> find() {
    for (const auto& [start, others] : waits_for_) {
      if (closes(start)) return {std::ranges::find(way_, *again_), way_.end()};
    }
    return {};
  }

 private:
  bool closes(const Node& at) {
    const auto found = waits_for_.find(at);
    if (found == waits_for_.end() || !seen_.insert(at).second) return false;
    way_.push_back(at);
    for (const Node& next : found->second) {
      if (std::ranges::find(way_, next) != way_.end()) again_ = next;
      if (again_ || closes(next)) return true;
    }
    way_.pop_back();
    return false;
  }

  const WaitsFor<Node>& waits_for_;
  std::set<Node> seen_;
  std::vector<Node> way_;
  std::optional<Node> again_;
};

std::set<sim::PeLocation> pes_that_run(const std::vector<Fiber*>& fibers) {
  std::set<sim::PeLocation> pes;
  for (const Fiber* fiber : fibers) {
    if (local_of(*fiber).kind == FiberLocal::Kind::kernel) pes.insert(local_of(*fiber).pe);
  }
  return pes;
}

// Returns the ranks without whose calls this rank cannot continue.
std::vector<int> missing_ranks(const FiberLocal& local) {
  if (local.collective) return local.collective->missing_ranks();
  return local.work ? local.work->missing_ranks() : std::vector<int>();
}

std::string describe_wait(const Fiber& fiber, const std::set<sim::PeLocation>& running) {
  const FiberLocal& local = local_of(fiber);
  const std::vector<int> missing =
      local.collective ? local.collective->missing_ranks() : std::vector<int>();
  std::string text = fmt::format("\n  {} waits for {} since t={}", fiber.name(),
                                 missing.empty() ? fiber.waits_for() : name_ranks(missing),
                                 to_string(local.waits_since.value_or(fiber.waits_since())));
  if (local.collective) text += fmt::format(", in {}", local.collective->describe());
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
std::string describe_cycle(const WaitsFor<Node>& waits_for) {
  const std::vector<Node> cycle = CycleSearch(waits_for).find();
  if (cycle.empty()) return {};
  std::vector<std::string> names;
  for (const Node& node : cycle) names.push_back(name_of_node(node));
  names.push_back(names.front());
  return fmt::format("\n  wait-for cycle: {}", fmt::join(names, " -> "));
}

// Describes cycles of kernels that wait for each other's queues, and of ranks that wait for each
// other's calls.
std::string describe_cycles(const std::vector<Fiber*>& fibers) {
  WaitsFor<sim::PeLocation> kernels;
  std::set<sim::PeLocation> ambiguous;  // PEs on which several kernels wait, for different peers
  WaitsFor<int> ranks;
  for (const Fiber* fiber : fibers) {
    const FiberLocal& local = local_of(*fiber);
    if (local.waits_for && !kernels.emplace(local.pe, std::vector{*local.waits_for}).second) {
      ambiguous.insert(local.pe);
    }
    if (local.kind == FiberLocal::Kind::rank) ranks.emplace(local.rank, missing_ranks(local));
  }
  for (const sim::PeLocation& pe : ambiguous) kernels.erase(pe);
  return describe_cycle(kernels) + describe_cycle(ranks);
}

// Returns the smallest queue depth at which the senders of full queues could continue.
std::string describe_depth(const std::vector<Fiber*>& fibers) {
  int depth = 0;
  for (const Fiber* fiber : fibers) depth = std::max(depth, local_of(*fiber).full_depth);
  if (depth == 0) return {};
  return fmt::format("\n  hint: queues are full: this needs depth >= {}, or a recv before the send",
                     depth + 1);
}

// "1 rank", "2 ranks"
std::string plural(std::ptrdiff_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "2 ranks, 1 async call and 0 kernels"
std::string count(const std::vector<Fiber*>& fibers) {
  const auto count_of = [&](FiberLocal::Kind kind, bool is_on_device = false) {
    return std::ranges::count_if(fibers, [&](const Fiber* fiber) {
      return local_of(*fiber).kind == kind && local_of(*fiber).is_on_device == is_on_device;
    });
  };
  std::string text = plural(count_of(FiberLocal::Kind::rank), "rank");
  for (const auto& [is_queued, what] :
       {std::pair(true, "queued operation"), {false, "async call"}}) {
    const auto works = count_of(FiberLocal::Kind::work, is_queued);
    if (works > 0) text += ", " + plural(works, what);
  }
  return fmt::format("{} and {}", text, plural(count_of(FiberLocal::Kind::kernel), "kernel"));
}

// Names what faults have done, which may be why.
std::string describe_faults(sim::Machine& machine) {
  std::string text;
  if (machine.faults() == nullptr) return text;
  machine.faults()->note_deaths(machine.engine().now());
  for (const FaultEffect& effect : machine.faults()->effects()) {
    if (effect.count > 0) text += "\n  fault: " + describe(effect);
  }
  return text;
}

}  // namespace

DeadlockError deadlock_error(Simulation& simulation) {
  const std::vector<Fiber*> fibers = simulation.fibers().live();
  std::string text = fmt::format("deadlock: {} blocked, no event pending at t={}", count(fibers),
                                 to_string(simulation.now()));
  text += describe_faults(simulation.machine());
  const std::set<sim::PeLocation> running = pes_that_run(fibers);
  std::size_t lines = 0;
  for (const bool wanted : {true, false}) {  // ranks first
    for (const Fiber* fiber : fibers) {
      const bool is_rank = local_of(*fiber).kind == FiberLocal::Kind::rank;
      if (is_rank != wanted || ++lines > kMostWaiters) continue;
      text += describe_wait(*fiber, running);
    }
  }
  if (lines > kMostWaiters) text += fmt::format("\n  and {} more", lines - kMostWaiters);
  return {"KB-D001", text + describe_cycles(fibers) + describe_depth(fibers)};
}

}  // namespace kernbench::runtime
