#include "runtime/multiprocessing/spawn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <exception>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/multiprocessing/host_room.h"
#include "runtime/multiprocessing/world.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench::multiprocessing {

using runtime::FiberLocal;

bool ProcessContext::join() {
  return world_->join();
}

// Stays silent while an exception propagates: that explains why workers are unfinished.
void Multiprocessing::report_unfinished() const {
  const auto last = last_.lock();
  if (last == nullptr || last->is_over() || std::uncaught_exceptions() > 0) return;
  const std::vector<std::string> ranks = last->unfinished();
  if (ranks.empty()) return;
  fmt::print(stderr,
             "kernbench: warning: [KB-R013] the context ends with {} unfinished worker{}, which {} "
             "unwound ({}); join() them first\n",
             ranks.size(), ranks.size() == 1 ? "" : "s", ranks.size() == 1 ? "is" : "are",
             visible(fmt::format("{}", fmt::join(ranks, ", "))));
}

void Multiprocessing::context_ends() {
  for (const std::weak_ptr<World>& kept : worlds_) {
    if (const auto world = kept.lock()) world->context_ends();
  }
}

std::size_t Multiprocessing::find_stand_in(std::size_t rank) const {
  const sim::Folding& folding = simulation_.machine().folding();
  return static_cast<std::size_t>(folding.first_of(static_cast<int>(rank)));
}

void Multiprocessing::throw_no_result(std::size_t rank) {
  throw CollectiveError(
      "KB-R021", "spawn(): rank {} has died, and its worker's result has no default value", rank);
}

ProcessContext Multiprocessing::start(int nprocs, std::function<void(int)> body) {
  const FiberLocal& local = simulation_.local();
  if (simulation_.fibers().current() != nullptr) {
    const char* where = local.kind == FiberLocal::Kind::rank ? "a worker" : "a kernel";
    throw CollectiveError("KB-R004", "spawn() inside {} (rank {}): nested worlds are not supported",
                          where, local.rank);
  }
  if (const auto last = last_.lock(); last != nullptr && !last->is_over()) {
    throw CollectiveError("KB-R004", "spawn() while the ranks of another one run: join() it first");
  }
  if (nprocs < 1) throw CollectiveError("KB-R010", "spawn: nprocs is {}", nprocs);
  check_has_room(nprocs);
  distributed::check_can_be_alike(simulation_, nprocs);
  runtime::synchronize(simulation_);  // ranks may use what the driver has launched
  distributed_.state_->ranks_start(nprocs);
  simulation_.attachments().forget_ranks();  // of a run that failed and was not joined
  const auto world = std::make_shared<World>(simulation_, distributed_, nprocs, std::move(body));
  simulation_.keep(world);
  last_ = world;
  std::erase_if(worlds_, [](const std::weak_ptr<World>& kept) { return kept.expired(); });
  worlds_.push_back(world);
  try {
    world->start_ranks();
  } catch (...) {  // the host has no room for them
    simulation_.abandon();
    distributed_.state_->run_abandoned();
    throw;
  }
  return ProcessContext(world);
}

}  // namespace kernbench::multiprocessing
