// Chooses the algorithm by which a collective of a group runs: the one that ccl.yaml names, or the
// one that takes the least time by a model of latencies and bandwidths.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ccl/core/config.h"
#include "ccl/core/plan.h"
#include "ccl/steps/plan_time.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

struct Candidate {
  const Algorithm* algorithm = nullptr;
  PlanWalk walk;
};

// An algorithm that was chosen, and what the model says of it.
struct Chosen {
  const Algorithm* algorithm = nullptr;
  bool is_configured = false;  // ccl.yaml names it
  std::string_view why{};      // "named", "default", or "fastest" by the model
  std::optional<Time> time{};  // nullopt: a kernel, or a plan that `auto` does not choose
  bool is_fastest = true;      // by the model, where it knows a time
  std::string others{};        // "mesh_allreduce 14.0 us, ...", the fastest first
};

// Returns the data of a collective whose blocks have `bytes` bytes each and lie as `x` does.
Moved moved_of(const Topology& topology, const Tensor& x, Bytes bytes, int root = 0);

// The data for which the algorithm of a level is chosen.  That of Reproducible::batch is the same
// however much a call moves: what a layer of a large model has for some dozens of tokens.
Moved moved_of_level(const Moved& moved, Reproducible level);

// The algorithm of an all_reduce that nothing has run yet.
const Algorithm& default_algorithm(const Config& config);

class AlgorithmChoice {
 public:
  // `group` is the group's description, by which rules name it.
  AlgorithmChoice(const Topology& topology, const Config& config, const GroupShape& shape,
                  const std::vector<int>& sips, std::string group);

  // Makes the choice for the group of all ranks.
  static AlgorithmChoice of_all(const Topology& topology, const Config& config);

  // Throws ConfigError KB-Y047 if ccl.yaml names an algorithm for the group that its members cannot
  // run.  An algorithm that the command line names for all groups is checked by choose(), since the
  // default group, which every program has, may run nothing.
  void check_configured() const;

  // Throws ConfigError KB-Y047 if the group's members cannot run the algorithm that is named.
  const Algorithm& choose(distributed::CollectiveKind kind, const Moved& moved);
  // Chooses for a reduction of level Reproducible::batch, one for all sizes, or of level `pairs`.
  // Throws CollectiveError KB-C027 if an algorithm is named that adds in another order.
  const Algorithm& choose_invariant(distributed::CollectiveKind kind, const Moved& moved,
                                    Reproducible level);
  // The fastest of the library's.
  const Algorithm& best(distributed::CollectiveKind kind, const Moved& moved);
  // The fastest all_reduce of one element whose bits nobody reads.
  const Algorithm& best_of_barriers();
  // True if ccl.yaml names the algorithm for the collective.
  bool is_configured(distributed::CollectiveKind kind, const Algorithm& algorithm,
                     Bytes bytes) const;
  // The number of the file's rule that decides for the collective (Config::number_of_rule()).
  int number_of_rule(distributed::CollectiveKind kind, Bytes bytes) const {
    return config_.number_of_rule(rule_for(kind, bytes));
  }
  // The library's algorithms that `auto` chooses among.
  const std::vector<Candidate>& candidates(distributed::CollectiveKind kind, int root = 0);
  // "ring_allreduce 12.1 us, mesh_allreduce 14.0 us, ...", the fastest first.
  std::string describe(distributed::CollectiveKind kind, const Moved& moved);
  // The same choice as choose(), with its reasons.
  Chosen explain(distributed::CollectiveKind kind, const Moved& moved);
  // The time of an algorithm by the model; nullopt of a kernel.
  std::optional<Time> time_of(const Algorithm& algorithm, distributed::CollectiveKind kind,
                              const Moved& moved) const;
  // The root of the trees over cubes: the one that ccl.yaml names, or the fastest by the model.
  // For sums of level `pairs` it is the first one, however many members there are.
  Root root_for(const Algorithm& algorithm, distributed::CollectiveKind kind, const Moved& moved,
                Reproducible level);
  // The protocol of the messages of a collective whose blocks have `bytes` bytes, where a rank
  // gives or takes `size` bytes in all; nullptr if there is none.
  const Protocol* protocol_for(distributed::CollectiveKind kind, Bytes bytes, Bytes size) const {
    return config_.protocol_for(size, rule_for(kind, bytes));
  }

 private:
  // Refuses an algorithm that a rule names, or the defaults if it is null.
  void check_fits(const Rule* rule, const Algorithm& algorithm) const;
  // True if the group's members can run it as part of a choice.
  bool may_run(const Algorithm& algorithm, distributed::CollectiveKind kind) const;
  // The one that ccl.yaml names, checked; nullptr if it leaves the choice.
  const Algorithm* find_named(distributed::CollectiveKind kind, const Moved& moved) const;
  // The library's algorithms that add in the order of a level, the fastest first.
  const std::vector<const Algorithm*>& invariant(distributed::CollectiveKind kind,
                                                 const Moved& moved, Reproducible level);
  bool keeps_order(const Algorithm& algorithm, distributed::CollectiveKind kind, const Moved& moved,
                   Reproducible level);
  // True if nobody names the algorithm of such a collective, or ccl.yaml says auto.
  bool is_open(distributed::CollectiveKind kind) const;

  const Topology& topology() const { return networks_.front().topology; }

  using TimedName = std::pair<Time, std::string_view>;

  // The fastest first.
  std::vector<TimedName> times(distributed::CollectiveKind kind, const Moved& moved);
  PlanTime time_of(const Candidate& candidate, distributed::CollectiveKind kind,
                   const Moved& moved) const;

  // The size of a collective with such blocks, as nccl-tests counts it.
  Bytes size_of(distributed::CollectiveKind kind, Bytes block) const {
    return traits_of(kind).has_list() ? shape_.size * block : block;
  }
  const Rule* rule_for(distributed::CollectiveKind kind, Bytes bytes) const {
    return config_.rule_for(kind, shape_.size, size_of(kind, bytes), group_);
  }

  const Config config_;
  const std::vector<GroupNetwork> networks_;  // by root that a collective may have
  const std::vector<int> sips_;               // a translation of the group's
  const GroupShape shape_;                    // theirs
  const std::string group_;
  // By collective and the root to walk.
  std::map<std::pair<distributed::CollectiveKind, int>, std::vector<Candidate>> candidates_;
  std::map<std::pair<distributed::CollectiveKind, Moved>, const Algorithm*> best_;
  std::map<std::tuple<distributed::CollectiveKind, Moved, Reproducible>,
           std::vector<const Algorithm*>>
      invariant_;
  std::map<
      std::tuple<const Algorithm*, distributed::CollectiveKind, int, Reproducible, int, bool>, bool>
      keeps_order_;  // the last three: the level, and a member's cubes and if they have sums
  const Algorithm* best_of_barriers_ = nullptr;
};

}  // namespace kernbench::ccl
