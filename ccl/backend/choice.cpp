#include "ccl/backend/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ccl/core/config_rules.h"
#include "ccl/steps/cut_sizes.h"
#include "ccl/steps/slices.h"
#include "sim_engine/base/check.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::ccl {

namespace {

constexpr std::string_view kNeedsSums =
    "it needs a switch between the SIPs that adds up: in the topology file, 'topology: switch' and "
    "'switch: {sums: ...}'";

std::string listed(const std::vector<std::pair<Time, std::string_view>>& times) {
  std::string text;
  for (const auto& [time, name] : times) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, to_string(time));
  }
  return text;
}

std::vector<GroupNetwork> networks_by_root(const Topology& topology, const Config& config,
                                           bool are_pes) {
  std::vector<GroupNetwork> networks;
  for (const Root root : config.roots()) {
    networks.push_back(make_group_network(topology, config.with_root(root), are_pes));
  }
  return networks;
}

}  // namespace

AlgorithmChoice::AlgorithmChoice(const Topology& topology, const Config& config,
                                 const GroupShape& shape, const std::vector<int>& sips,
                                 std::string group)
    : config_(config),
      networks_(networks_by_root(topology, config, shape.is_of_pes)),
      sips_(shift_to_first(topology, sips)),
      shape_(shape),
      group_(std::move(group)) {}

AlgorithmChoice AlgorithmChoice::of_all(const Topology& topology, const Config& config) {
  if (config.world_size())
    return {topology, config, shape_of_pes(*config.world_size()), {}, "default_pg"};
  std::vector<int> sips(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(sips.begin(), sips.end(), 0);
  return {topology, config, shape_of_sips(topology, sips), sips, "default_pg"};
}

void AlgorithmChoice::check_configured() const {
  for (const Rule* rule : config_.select_rules(shape_.size, group_)) {
    if (rule->algorithm != nullptr) check_fits(rule, *rule->algorithm);
  }
  if (!config_.is_auto() && !config_.is_overridden()) check_fits(nullptr, config_.algorithm());
}

void AlgorithmChoice::check_fits(const Rule* rule, const Algorithm& algorithm) const {
  std::string_view why = describe_misfit(algorithm, shape_);
  // A rank alone sends nothing through a switch.
  const bool needs_sums = algorithm.network == Network::adds_up && shape_.size > 1;
  if (needs_sums && !provides(topology(), algorithm.network)) why = kNeedsSums;
  if (why.empty()) return;
  config_.refuse_algorithm(
      rule, fmt::format("the algorithm '{}' cannot serve the group '{}' of {} ranks: {}; a rule "
                        "with `ranks` or `group` can choose it for others alone",
                        algorithm.name, group_, shape_.size, why));
}

const std::vector<Candidate>& AlgorithmChoice::candidates(distributed::CollectiveKind kind,
                                                          int root) {
  root = root_to_walk(topology(), shape_, root);
  const auto [known, is_new] = candidates_.try_emplace({kind, root});
  if (!is_new) return known->second;
  for (const Algorithm* algorithm : algorithms()) {
    if (!algorithm->suits_auto || !serves(*algorithm, kind)) continue;
    const bool is_made_for_more = algorithm->network != Network::any && shape_.is_of_pes;
    const bool needs_sums = algorithm->network == Network::adds_up;
    if (is_made_for_more || (needs_sums && !provides(topology(), algorithm->network))) continue;
    if (!describe_misfit(*algorithm, shape_).empty()) continue;
    known->second.push_back({algorithm, {}});
    if (algorithm->plan == nullptr) continue;
    known->second.back().walk = walk_plan(*algorithm, kind, topology(), shape_, sips_, root);
  }
  return known->second;
}

PlanTime AlgorithmChoice::time_of(const Candidate& candidate, distributed::CollectiveKind kind,
                                  const Moved& moved) const {
  const Protocol* const protocol = protocol_for(kind, moved.bytes, size_of(kind, moved.bytes));
  PlanTime least{Time::max()};
  for (const GroupNetwork& network : networks_) {
    least = std::min(least, plan_time(candidate.walk, network, protocol, moved));
  }
  const int pes = shape_.is_of_pes ? shape_.size : moved.lanes * moved.cubes;
  const Time start = protocol == nullptr ? Time{0} : protocol->start;
  least.time += launch_time(networks_.front(), pes) + start;
  return least;
}

Root AlgorithmChoice::root_for(const Algorithm& algorithm, distributed::CollectiveKind kind,
                               const Moved& moved) {
  if (networks_.size() == 1 || algorithm.plan == nullptr) return networks_.front().root;
  const std::vector<Candidate>& known = candidates(kind, moved.root);
  const auto candidate = std::ranges::find(known, &algorithm, &Candidate::algorithm);
  if (candidate == known.end()) return networks_.front().root;
  const Protocol* const protocol = protocol_for(kind, moved.bytes, size_of(kind, moved.bytes));
  return std::ranges::min_element(networks_, {},
                                  [&](const GroupNetwork& network) {
                                    return plan_time(candidate->walk, network, protocol, moved);
                                  })
      ->root;
}

std::optional<Time> AlgorithmChoice::time_of(const Algorithm& algorithm,
                                             distributed::CollectiveKind kind,
                                             const Moved& moved) const {
  if (algorithm.plan == nullptr) return std::nullopt;
  return time_of({&algorithm, walk_plan(algorithm, kind, topology(), shape_, sips_, moved.root)},
                 kind, moved)
      .time;
}

const Algorithm& AlgorithmChoice::choose(distributed::CollectiveKind kind, const Moved& moved) {
  const Rule* const rule = rule_for(kind, moved.bytes);
  const bool is_named = rule != nullptr ? rule->algorithm != nullptr : !is_open(kind);
  if (!is_named) return best(kind, moved);
  const Algorithm& named = rule != nullptr ? *rule->algorithm : config_.algorithm();
  check_fits(rule, named);
  return named;
}

bool AlgorithmChoice::is_open(distributed::CollectiveKind kind) const {
  if (kind != distributed::CollectiveKind::all_reduce || config_.is_auto()) return true;
  return !config_.names_all_reduce() && !shape_.is_of_pes;
}

std::vector<AlgorithmChoice::TimedName> AlgorithmChoice::times(distributed::CollectiveKind kind,
                                                               const Moved& moved) {
  std::vector<std::pair<PlanTime, std::string_view>> all;
  for (const Candidate& candidate : candidates(kind, moved.root)) {
    all.emplace_back(time_of(candidate, kind, moved), candidate.algorithm->name);
  }
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
  std::vector<TimedName> times;
  for (const auto& [plan_time, name] : all) times.emplace_back(plan_time.time, name);
  return times;
}

std::string AlgorithmChoice::describe(distributed::CollectiveKind kind, const Moved& moved) {
  return listed(times(kind, moved));
}

Chosen AlgorithmChoice::explain(distributed::CollectiveKind kind, const Moved& moved) {
  const Algorithm& algorithm = choose(kind, moved);
  const Rule* const rule = rule_for(kind, moved.bytes);
  const bool is_open = rule != nullptr ? rule->algorithm == nullptr : this->is_open(kind);
  const bool is_named = rule != nullptr || config_.names_all_reduce();
  const std::string_view why = is_open ? "fastest" : is_named ? "named" : "default";
  Chosen chosen{&algorithm, is_configured(kind, algorithm, moved.bytes), why};
  std::vector<TimedName> all = times(kind, moved);
  const auto own = std::ranges::find(all, algorithm.name, &TimedName::second);
  if (own != all.end()) {
    chosen.time = own->first;
    all.erase(own);
  }
  if (chosen.time && !all.empty()) chosen.is_fastest = *chosen.time <= all.front().first;
  chosen.others = listed(all);
  return chosen;
}

// Cubes that hold copies or summands share a tree (PlannedCall::find_cubes()), and PEs that hold
// copies share the bytes.
Moved moved_of(const Topology& topology, const Tensor& x, Bytes bytes, int root) {
  Moved moved{.bytes = bytes, .has_sums = x.dp().cube == Shard::partial, .root = root};
  if (!is_sharded(x.dp().cube)) moved.cubes = x.dp().cube_holders(topology);
  const auto& shards = x.shards();
  const auto holders =
      std::ranges::count_if(shards, [](const ShardInfo& shard) { return shard.shape.numel() > 0; });
  std::int64_t lanes = holders / moved.cubes;
  if (x.dp().pe == Shard::replicate) lanes = std::min(lanes, bytes / kLeastShare);
  moved.lanes = static_cast<int>(std::max<std::int64_t>(lanes, 1));
  return moved;
}

const Algorithm& default_algorithm(const Config& config) {
  return config.is_auto() ? *find_algorithm("intercube_allreduce") : config.algorithm();
}

bool AlgorithmChoice::is_configured(distributed::CollectiveKind kind, const Algorithm& algorithm,
                                    Bytes bytes) const {
  if (const Rule* rule = rule_for(kind, bytes)) {
    return config_.is_chosen(rule);
  }
  return kind == distributed::CollectiveKind::all_reduce && config_.is_chosen(nullptr) &&
         (is_open(kind) || &config_.algorithm() == &algorithm);
}

const Algorithm& AlgorithmChoice::best(distributed::CollectiveKind kind, const Moved& moved) {
  const Algorithm*& best = best_[{kind, moved}];
  if (best != nullptr) return *best;
  PlanTime least{Time::max()};
  for (const Candidate& candidate : candidates(kind, moved.root)) {
    const PlanTime time = time_of(candidate, kind, moved);
    if (time >= least) continue;
    least = time;
    best = candidate.algorithm;
  }
  KB_CHECK(best != nullptr, "no algorithm for {}", distributed::traits_of(kind).op_type);
  return *best;
}

}  // namespace kernbench::ccl
