#include "ccl/backend/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ccl/algorithms/swing.h"
#include "ccl/backend/plan_cache.h"
#include "ccl/core/config_rules.h"
#include "ccl/steps/cut_sizes.h"
#include "ccl/steps/plan_sums.h"
#include "ccl/steps/slices.h"
#include "sim_engine/base/add_in_pairs.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
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

bool AlgorithmChoice::may_run(const Algorithm& algorithm, distributed::CollectiveKind kind) const {
  if (!serves(algorithm, kind)) return false;
  const bool is_made_for_more = algorithm.network != Network::any && shape_.is_of_pes;
  const bool needs_sums = algorithm.network == Network::adds_up;
  if (is_made_for_more || (needs_sums && !provides(topology(), algorithm.network))) return false;
  return describe_misfit(algorithm, shape_).empty();
}

const std::vector<Candidate>& AlgorithmChoice::candidates(distributed::CollectiveKind kind,
                                                          int root) {
  root = root_to_walk(topology(), shape_, root);
  const auto [known, is_new] = candidates_.try_emplace({kind, root});
  if (!is_new) return known->second;
  for (const Algorithm* algorithm : algorithms()) {
    if (!algorithm->suits_auto || !may_run(*algorithm, kind)) continue;
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
                               const Moved& moved, Reproducible level) {
  const bool is_fixed = level == Reproducible::pairs;
  if (is_fixed || networks_.size() == 1 || algorithm.plan == nullptr) return networks_.front().root;
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

const Algorithm* AlgorithmChoice::find_named(distributed::CollectiveKind kind,
                                             const Moved& moved) const {
  const Rule* const rule = rule_for(kind, moved.bytes);
  const bool is_named = rule != nullptr ? rule->algorithm != nullptr : !is_open(kind);
  if (!is_named) return nullptr;
  const Algorithm& named = rule != nullptr ? *rule->algorithm : config_.algorithm();
  check_fits(rule, named);
  return &named;
}

const Algorithm& AlgorithmChoice::choose(distributed::CollectiveKind kind, const Moved& moved) {
  const Algorithm* const named = find_named(kind, moved);
  return named != nullptr ? *named : best(kind, moved);
}

namespace {

// The cubes that share a tensor of which a call moves so much (PlannedCall::find_cubes()).
CubeTree cubes_of(const Topology& topology, distributed::CollectiveKind kind, const Moved& moved) {
  const bool shares = kind == distributed::CollectiveKind::all_reduce || !moved.has_sums;
  return {sim::cube_grid(topology), shares ? moved.cubes : 1, moved.has_sums && shares,
          Root::center};
}

}  // namespace

// All members store the same sum of all chunks: then the bits of an element depend neither on where
// it lies nor on how many there are.  The order of ranks is the same on however many cubes they
// have their summands.
bool AlgorithmChoice::keeps_order(const Algorithm& algorithm, distributed::CollectiveKind kind,
                                  const Moved& moved, Reproducible level) {
  if (algorithm.plan == nullptr) return false;
  const bool wants_pairs = level == Reproducible::pairs;
  const CubeTree cubes = wants_pairs ? CubeTree{} : cubes_of(topology(), kind, moved);
  const auto [known, is_new] = keeps_order_.try_emplace(
      {&algorithm, kind, moved.root, level, cubes.count, cubes.has_sums}, false);
  if (!is_new) return known->second;
  PlanCache cache(shape_);
  std::vector<std::shared_ptr<const Plan>> plans;
  for (int node = 0; node < shape_.size * cubes.count; ++node) {
    plans.push_back(cache.plan(algorithm.plan, kind, moved.root, node, cubes).plan);
  }
  SumTrees trees;
  const auto own = [&](int node) {
    const int cube = cubes.has_sums ? node % cubes.count : kNobody;
    return trees.add_summand({node / cubes.count, cube, kNobody});
  };
  std::set<int> bits;
  for (const auto& [chunk, sums] : add_up(plans, own, trees)) {
    for (const SumTrees::Tree sum : sums) {
      if (sum != SumTrees::kNone) bits.insert(trees.number_of_bits(sum));
    }
  }
  if (wants_pairs) {
    bits.insert(trees.number_of_bits(sim::add_in_pairs(
        0, shape_.size,
        [&](std::int64_t member) {
          return trees.add_summand({static_cast<int>(member), kNobody, kNobody});
        },
        [&](SumTrees::Tree left, SumTrees::Tree right) { return trees.add(left, right); })));
  }
  return known->second = bits.size() == 1;
}

const std::vector<const Algorithm*>& AlgorithmChoice::invariant(distributed::CollectiveKind kind,
                                                                const Moved& moved,
                                                                Reproducible level) {
  const auto [known, is_new] = invariant_.try_emplace({kind, moved, level});
  if (!is_new) return known->second;
  std::vector<std::pair<Time, const Algorithm*>> found;
  for (const Algorithm& algorithm : library_algorithms()) {
    if (!may_run(algorithm, kind) || !keeps_order(algorithm, kind, moved, level)) continue;
    found.emplace_back(*time_of(algorithm, kind, moved), &algorithm);
  }
  std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
  for (const auto& [time, algorithm] : found) known->second.push_back(algorithm);
  return known->second;
}

const Algorithm& AlgorithmChoice::choose_invariant(distributed::CollectiveKind kind,
                                                   const Moved& moved, Reproducible level) {
  const Moved usual = moved_of_level(moved, level);
  const std::vector<const Algorithm*>& all = invariant(kind, usual, level);
  KB_CHECK(!all.empty(), "no algorithm adds {} in the order of {}",
           distributed::traits_of(kind).op_type, name_of(level));
  const bool is_named = rule_for(kind, usual.bytes) != nullptr || config_.names_all_reduce();
  const Algorithm* const named = is_named ? find_named(kind, usual) : nullptr;
  if (named == nullptr || shape_.size == 1) return *all.front();
  if (keeps_order(*named, kind, usual, level)) return *named;
  std::string others;
  for (const Algorithm* const algorithm : all) {
    others += fmt::format("{}, ", algorithm->name);
  }
  const std::string_view why = level == Reproducible::pairs
                                   ? "does not add ranks in pairs"
                                   : "is not batch-invariant: the order in which it adds an "
                                     "element up depends on where that lies";
  throw CollectiveError("KB-C027",
                        "{}: the algorithm '{}' that ccl.yaml, or the machine's own table, chooses "
                        "{}\n  of {} ranks these do: {}and auto takes the first; another table is "
                        "given by --ccl",
                        distributed::traits_of(kind).name, named->name, why, shape_.size, others);
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

Moved moved_of_level(const Moved& moved, Reproducible level) {
  if (level != Reproducible::batch) return moved;
  Moved usual = moved;
  usual.bytes = Bytes{256} << 10;
  usual.lanes = 1;
  return usual;
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

const Algorithm& AlgorithmChoice::best_of_barriers() {
  static constexpr Algorithm kWhole{
      .name = "swing_barrier", .plan = plan_swing_whole, .misfit = misfit_of_swing};
  if (best_of_barriers_ != nullptr) return *best_of_barriers_;
  constexpr auto kKind = distributed::CollectiveKind::all_reduce;
  const Moved moved{.bytes = kernbench::size_of(DType::f32)};
  const Algorithm& usual = best(kKind, moved);
  const bool may_exchange = shape_.size > 1 && describe_misfit(kWhole, shape_).empty();
  const bool is_faster =
      may_exchange && time_of(kWhole, kKind, moved) < time_of(usual, kKind, moved);
  best_of_barriers_ = is_faster ? &kWhole : &usual;
  return *best_of_barriers_;
}

}  // namespace kernbench::ccl
