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

// The model looks at the plans of at most this many members.  Networks are regular, so the plans of
// further members load the links alike.
constexpr int kMostMembers = 64;

constexpr std::string_view kNeedsSums =
    "it needs a switch between the SIPs that adds up: in the topology file, 'topology: switch' and "
    "'switch: {sums: ...}'";

double compute_share(const Move& move, const Plan& plan) {
  return static_cast<double>(move.chunks.end - move.chunks.begin) / plan.chunk_count;
}

// The links between SIPs, and the shares that they carry.
class LinkLoads {
 public:
  LinkLoads(const Topology& topology, const std::vector<int>& sips)
      : network_(topology),
        sips_(sips),
        parallel_(topology.system.links_per_pair),
        loads_(static_cast<std::size_t>(topology.system.sip_count * network_.links_per_sip())) {}

  // Returns the number of hops.
  int add(int from, int to, double share) {
    const int here = sips_[static_cast<std::size_t>(from)];
    const int there = sips_[static_cast<std::size_t>(to)];
    for (const sim::SipNetwork::Link& link : network_.way(here, there)) add(link, share);
    return network_.hops(here, there);
  }
  // Adds the load of a message to or from the unit of a switch that adds up messages.
  void add_at_switch(int member, int link, double share) {
    add({sips_[static_cast<std::size_t>(member)], link}, share);
  }
  double most() const { return *std::ranges::max_element(loads_) / parallel_; }
  // Returns the load of a link in the most loaded direction, if all members load links as the
  // `members` that were added do.
  double most_by_direction(int members) const {
    const auto links = static_cast<std::size_t>(network_.links_per_sip());
    std::vector<double> sums(links, 0);
    for (std::size_t i = 0; i < loads_.size(); ++i) sums[i % links] += loads_[i];
    return *std::ranges::max_element(sums) / members / parallel_;
  }

 private:
  void add(const sim::SipNetwork::Link& link, double share) {
    loads_[static_cast<std::size_t>(link.sip * network_.links_per_sip() + link.number)] += share;
  }

  const sim::SipNetwork network_;
  const std::vector<int>& sips_;
  const int parallel_;
  std::vector<double> loads_;
};

std::string listed(const std::vector<std::pair<Time, std::string_view>>& times) {
  std::string text;
  for (const auto& [time, name] : times) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, to_string(time));
  }
  return text;
}

}  // namespace

AlgorithmChoice::AlgorithmChoice(const Topology& topology, const Config& config,
                                 const GroupShape& shape, std::vector<int> sips, std::string group)
    : topology_(topology),
      config_(config),
      shape_(shape),
      sips_(std::move(sips)),
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
  if (needs_sums && !provides(topology_, algorithm.network)) why = kNeedsSums;
  if (why.empty()) return;
  config_.refuse_algorithm(
      rule, fmt::format("the algorithm '{}' cannot serve the group '{}' of {} ranks: {}; a rule "
                        "with `ranks` or `group` can choose it for others alone",
                        algorithm.name, group_, shape_.size, why));
}

PlanCost AlgorithmChoice::estimate_cost(const Algorithm& algorithm,
                                        distributed::CollectiveKind kind) const {
  PlanCost cost;
  std::vector<double> by_time;
  std::vector<int> hops;
  std::vector<double> sent(static_cast<std::size_t>(shape_.size), 0);
  LinkLoads links(topology_, sips_);
  for (int self = 0; self < std::min(shape_.size, kMostMembers); ++self) {
    Plan plan(kind, self);
    algorithm.plan({shape_, kind, 0, self, {}}, plan);
    by_time.resize(static_cast<std::size_t>(plan.length));
    hops.resize(by_time.size());
    cost.slice = static_cast<double>(plan.chunk_count) / plan.most_chunks();
    cost.slices_at_once = plan.slices_at_once;
    cost.slice_interval = slice_interval(plan);
    cost.message = std::min(config_.ipcq().slot_bytes,
                            most_message_elements(topology_, DType::f16, plan, plan.width, 1) * 2);
    for (const Move& move : plan.moves) {
      const auto time = static_cast<std::size_t>(move.time);
      for (const int to : move.to) {
        sent[static_cast<std::size_t>(self)] += compute_share(move, plan);
        const double share = compute_share(move, plan);
        if (to == kSwitch) links.add_at_switch(self, sim::SipNetwork::kToSwitch, share);
        const bool is_one_hop = shape_.is_of_pes || to == kSwitch;
        hops[time] = std::max(hops[time], is_one_hop ? 1 : links.add(self, to, share));
      }
      if (std::ranges::find(move.from, kSwitch) != move.from.end()) {
        links.add_at_switch(self, sim::SipNetwork::kFromSwitch, compute_share(move, plan));
      }
      if (move.to.empty()) continue;
      double& most = by_time[time];
      most = std::max(most, compute_share(move, plan));
    }
  }
  // When none of those looked at sends, others do.
  for (std::size_t time = 1; shape_.size > kMostMembers && time + 1 < hops.size(); ++time) {
    if (hops[time] > 0) continue;
    hops[time] = hops[time - 1];
    by_time[time] = by_time[time - 1];
  }
  cost.fill = std::accumulate(by_time.begin(), by_time.end(), 0.0);
  cost.steps = static_cast<int>(std::ranges::count_if(hops, [](int count) { return count > 0; }));
  cost.further = std::accumulate(hops.begin(), hops.end(), 0) - cost.steps;
  cost.load = shape_.is_of_pes ? *std::ranges::max_element(sent) : links.most();
  if (shape_.size > kMostMembers && !shape_.is_of_pes) {
    cost.load = std::max(cost.load, links.most_by_direction(kMostMembers));
  }
  return cost;
}

const std::vector<Candidate>& AlgorithmChoice::candidates(distributed::CollectiveKind kind) {
  const auto [known, is_new] = candidates_.try_emplace(kind);
  if (!is_new) return known->second;
  for (const Algorithm* algorithm : algorithms()) {
    if (!algorithm->suits_auto || !serves(*algorithm, kind)) continue;
    const bool is_made_for_more = algorithm->network != Network::any && shape_.is_of_pes;
    if (is_made_for_more || !provides(topology_, algorithm->network)) continue;
    if (!describe_misfit(*algorithm, shape_).empty()) continue;
    known->second.push_back({algorithm, {}});
    if (algorithm->plan != nullptr) known->second.back().cost = estimate_cost(*algorithm, kind);
  }
  return known->second;
}

// Steps follow each other for the first slice; what comes after it fills the busiest link.
Time AlgorithmChoice::estimate_time(const Candidate& candidate, Bytes bytes, int lanes) const {
  const PlanCost& cost = candidate.cost;
  const Topology::Pe& pe = topology_.pe;
  sim::PeLocation to{0, 0, 1};
  if (!shape_.is_of_pes && sips_.size() > 1) {
    to = {neighbour_of_first(), 0, 0};
  } else if (topology_.pe_count() == 1) {
    to = {0, 0, 0};
  }
  const sim::Path path = sim::Routing(topology_).route({sim::Endpoint::Kind::tcm, {0, 0, 0}},
                                                       {sim::Endpoint::Kind::tcm, to});
  // A command of a send and one that takes its message out of the queue.
  const Protocol* const protocol = config_.protocol_for(bytes);
  const Time added = protocol == nullptr ? Time{0} : protocol->latency;
  const double on_the_wire =
      protocol == nullptr ? 1 : double{sim::IpcqParams::kWhole} / protocol->efficiency;
  const Time step = added + path.latency +
                    2 * (pe.scheduler_dispatch + pe.dma_setup + pe.ipcq_latency) +
                    2 * pe.tcm.latency + 3 * pe.cpu_issue;
  const Time steps = cost.steps * step + cost.further * topology_.system.sip_link.latency;
  if (path.bottleneck.is_unlimited()) return steps;
  // Messages of other lanes fill the time in which one is under way.
  const double first =
      std::min(static_cast<double>(bytes) / lanes, static_cast<double>(cost.message) * cost.slice);
  const double carried = on_the_wire * (std::max(cost.fill, cost.load) * first +
                                        cost.load * (static_cast<double>(bytes) - first));
  // With few lanes a link may stand idle until the next slices begin.
  const double intervals =
      std::max(static_cast<double>(bytes) / lanes /
                       (static_cast<double>(cost.message) * cost.slice) / cost.slices_at_once -
                   1,
               0.0);
  const auto in_steps = Time{static_cast<std::int64_t>(intervals * cost.slice_interval *
                                                       static_cast<double>(step.count()))};
  return steps + std::max(transfer_time(static_cast<Bytes>(carried), path.bottleneck), in_steps);
}

int AlgorithmChoice::neighbour_of_first() const {
  const sim::Grid grid = sim::sip_grid(topology_);
  if (grid.w == 1 && grid.h == 1) return grid.neighbour(0, sim::Compass::down);
  return grid.neighbour(0, grid.w > 1 ? sim::Compass::east : sim::Compass::south);
}

const Algorithm& AlgorithmChoice::choose(distributed::CollectiveKind kind, Bytes bytes, int lanes) {
  const Rule* const rule = config_.rule_for(kind, shape_.size, bytes, group_);
  const bool is_named = rule != nullptr ? rule->algorithm != nullptr : !is_open(kind);
  if (!is_named) return best(kind, bytes, lanes);
  const Algorithm& named = rule != nullptr ? *rule->algorithm : config_.algorithm();
  check_fits(rule, named);
  return named;
}

bool AlgorithmChoice::is_open(distributed::CollectiveKind kind) const {
  if (kind != distributed::CollectiveKind::all_reduce || config_.is_auto()) return true;
  const bool are_all = group_ == "default_pg" || shape_.size == shape_.node_count;
  const bool keeps_default = are_all && shape_.size <= kMostRanksOfDefault;
  return !config_.names_all_reduce() && !shape_.is_of_pes && !keeps_default;
}

std::vector<AlgorithmChoice::TimedName> AlgorithmChoice::times(distributed::CollectiveKind kind,
                                                               Bytes bytes, int lanes) {
  std::vector<TimedName> times;
  for (const Candidate& candidate : candidates(kind)) {
    times.emplace_back(estimate_time(candidate, bytes, lanes), candidate.algorithm->name);
  }
  std::ranges::stable_sort(times, {}, &TimedName::first);
  return times;
}

std::string AlgorithmChoice::describe(distributed::CollectiveKind kind, Bytes bytes, int lanes) {
  return listed(times(kind, bytes, lanes));
}

Chosen AlgorithmChoice::explain(distributed::CollectiveKind kind, Bytes bytes, int lanes) {
  const Algorithm& algorithm = choose(kind, bytes, lanes);
  const Rule* const rule = config_.rule_for(kind, shape_.size, bytes, group_);
  const bool is_open = rule != nullptr ? rule->algorithm == nullptr : this->is_open(kind);
  const bool is_named = rule != nullptr || config_.names_all_reduce();
  const std::string_view why = is_open ? "fastest" : is_named ? "named" : "default";
  Chosen chosen{&algorithm, is_configured(kind, algorithm, bytes), why};
  std::vector<TimedName> all = times(kind, bytes, lanes);
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
int lane_count(const Topology& topology, const Tensor& x, Bytes bytes) {
  std::int64_t lanes = std::ssize(x.shards());
  for (const ShardInfo& shard : x.shards()) lanes -= shard.shape.numel() == 0 ? 1 : 0;
  if (!is_sharded(x.dp().cube)) lanes /= x.dp().cube_holders(topology);
  if (x.dp().pe == Shard::replicate) lanes = std::min(lanes, bytes / kLeastShare);
  return static_cast<int>(std::max<std::int64_t>(lanes, 1));
}

const Algorithm& default_algorithm(const Config& config) {
  return config.is_auto() ? *find_algorithm("intercube_allreduce") : config.algorithm();
}

bool AlgorithmChoice::is_configured(distributed::CollectiveKind kind, const Algorithm& algorithm,
                                    Bytes bytes) const {
  if (const Rule* rule = config_.rule_for(kind, shape_.size, bytes, group_)) {
    return config_.is_chosen(rule);
  }
  return kind == distributed::CollectiveKind::all_reduce && config_.is_chosen(nullptr) &&
         (is_open(kind) || &config_.algorithm() == &algorithm);
}

const Algorithm& AlgorithmChoice::best(distributed::CollectiveKind kind, Bytes bytes, int lanes) {
  const Algorithm* best = nullptr;
  Time least = Time::max();
  for (const Candidate& candidate : candidates(kind)) {
    const Time time = estimate_time(candidate, bytes, lanes);
    if (time >= least) continue;
    least = time;
    best = candidate.algorithm;
  }
  KB_CHECK(best != nullptr, "no algorithm for {}", distributed::op_type_of(kind));
  return *best;
}

}  // namespace kernbench::ccl
