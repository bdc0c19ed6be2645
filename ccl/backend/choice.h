// Chooses the algorithm by which a collective of a group runs: the one that ccl.yaml names, or the
// one that takes the least time by a model of latencies and bandwidths.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ccl/core/config.h"
#include "ccl/core/plan.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

// The cost of an algorithm's plan on a group, for any number of bytes.  All shares are fractions of
// a block, which is what one member gives to another.
struct PlanCost {
  int steps = 0;           // messages that follow each other
  int further = 0;         // links that they pass beyond one each
  double fill = 0;         // their share, summed up over the steps
  double load = 0;         // the share that the busiest link carries
  double slice = 1;        // a block over its largest message
  Bytes message = 1;       // the most that a message may have
  int slices_at_once = 1;  // of the plan
  int slice_interval = 1;  // until the next ones begin, in steps
};

struct Candidate {
  const Algorithm* algorithm = nullptr;
  PlanCost cost;
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

// If nobody names an algorithm, an all_reduce of up to this many ranks that are all there are keeps
// the default, which is compared with figures of other simulators (ADR-0267, ADR-0181).
inline constexpr int kMostRanksOfDefault = 32;

// The number of a member's PEs that send its block of this many bytes.
int lane_count(const Topology& topology, const Tensor& x, Bytes bytes);

// The algorithm of an all_reduce that nothing has run yet.
const Algorithm& default_algorithm(const Config& config);

class AlgorithmChoice {
 public:
  // `group` is the group's description, by which rules name it.
  AlgorithmChoice(const Topology& topology, const Config& config, const GroupShape& shape,
                  std::vector<int> sips, std::string group);

  // Makes the choice for the group of all ranks.
  static AlgorithmChoice of_all(const Topology& topology, const Config& config);

  // Throws ConfigError KB-Y047 if ccl.yaml names an algorithm for the group that its members cannot
  // run.  An algorithm that the command line names for all groups is checked by choose(), since the
  // default group, which every program has, may run nothing.
  void check_configured() const;

  // The algorithm for blocks of `bytes` bytes, which lie on `lanes` PEs of each member.  Throws
  // ConfigError KB-Y047 if its members cannot run the one that is named.
  const Algorithm& choose(distributed::CollectiveKind kind, Bytes bytes, int lanes);
  // The fastest of the library's.
  const Algorithm& best(distributed::CollectiveKind kind, Bytes bytes, int lanes);
  // True if ccl.yaml names the algorithm for the collective.
  bool is_configured(distributed::CollectiveKind kind, const Algorithm& algorithm,
                     Bytes bytes) const;
  // The number of the file's rule that decides for the collective (Config::number_of_rule()).
  int number_of_rule(distributed::CollectiveKind kind, Bytes bytes) const {
    return config_.number_of_rule(config_.rule_for(kind, shape_.size, bytes, group_));
  }
  // The library's algorithms that `auto` chooses among.
  const std::vector<Candidate>& candidates(distributed::CollectiveKind kind);
  // "ring_allreduce 12.1 us, mesh_allreduce 14.0 us, ...", the fastest first.
  std::string describe(distributed::CollectiveKind kind, Bytes bytes, int lanes);
  // The same choice as choose(), with its reasons.
  Chosen explain(distributed::CollectiveKind kind, Bytes bytes, int lanes);
  Time estimate_time(const Candidate& candidate, Bytes bytes, int lanes) const;
  // The protocol of the messages of a collective whose blocks have `bytes` bytes, where a rank
  // gives or takes `size` bytes in all; nullptr if there is none.
  const Protocol* protocol_for(distributed::CollectiveKind kind, Bytes bytes, Bytes size) const {
    return config_.protocol_for(size, config_.rule_for(kind, shape_.size, bytes, group_));
  }

 private:
  // Refuses an algorithm that a rule names, or the defaults if it is null.
  void check_fits(const Rule* rule, const Algorithm& algorithm) const;
  // True if nobody names the algorithm of such a collective, or ccl.yaml says auto.
  bool is_open(distributed::CollectiveKind kind) const;

  using TimedName = std::pair<Time, std::string_view>;

  // The fastest first.
  std::vector<TimedName> times(distributed::CollectiveKind kind, Bytes bytes, int lanes);
  PlanCost estimate_cost(const Algorithm& algorithm, distributed::CollectiveKind kind) const;
  int neighbour_of_first() const;

  const Topology topology_;
  const Config config_;
  const GroupShape shape_;
  const std::vector<int> sips_;
  const std::string group_;
  std::map<distributed::CollectiveKind, std::vector<Candidate>> candidates_;
};

}  // namespace kernbench::ccl
