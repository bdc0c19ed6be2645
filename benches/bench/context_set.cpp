#include "benches/bench/context_set.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/profiler/trace.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "sim_engine/base/check.h"
#include "sim_engine/components/machine_faults.h"
#include "sim_engine/topology/folding.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::benches {

namespace {

EngineStatistics collect_statistics(RuntimeContext& torch) {
  const EngineView& engine = torch.engine();
  EngineStatistics statistics{.simulated = engine.now(),
                              .timed = simulation_of(torch).timed(),
                              .events = engine.event_count(),
                              .fingerprint = engine.fingerprint(),
                              .busiest = engine.busiest_unit()};
  for (const runtime::AlgorithmUse& use : engine.algorithms_used()) {
    statistics.algorithms.push_back(
        {std::string(use.collective), std::string(use.algorithm), use.is_configured});
  }
  std::ranges::sort(statistics.algorithms);
  const std::set<int>& rules = simulation_of(torch).rules_used();
  statistics.rules.assign(rules.begin(), rules.end());
  statistics.energy = runtime::measure_energy(simulation_of(torch));
  const sim::Machine& machine = simulation_of(torch).machine();
  statistics.ranks_of_each = machine.folding().sips_of_each();
  statistics.are_nearly_alike = statistics.ranks_of_each > 1 && torch.options().folds_nearly;
  const sim::MachineFaults* const faults = simulation_of(torch).machine().faults();
  if (faults != nullptr) statistics.faults = faults->effects();
  return statistics;
}

// Returns the periods to try, each of which folds less than the one before.  All that nodes have
// fold them alike, into one node, so that nodes have but one.
std::vector<int> list_periods(const Topology& topology, int wanted) {
  const sim::SipNetwork network(topology);
  if (network.has_nodes()) {
    const int size = network.sips_in_node(network.level_count());
    return size % wanted == 0 ? std::vector{size} : std::vector<int>{};
  }
  std::vector<int> periods;
  for (const int unit : {1, wanted}) {
    for (int times = 1; times <= sim::Folding::kLargestPeriod; ++times) {
      periods.push_back(times * unit);
    }
  }
  return periods;
}

template <class Value>
void make_room(std::vector<Value>& values, std::size_t count) {
  const std::size_t wanted = values.size() + count;
  if (values.capacity() < wanted) values.reserve(2 * wanted);
}

}  // namespace

ContextSet::ContextSet(ContextSet& whole, const Recording& recording,
                       std::optional<std::uint64_t> shuffle_ties)
    : recording_(recording), shuffle_ties_(shuffle_ties), whole_(&whole) {
  const std::lock_guard lock(whole.mutex_);
  whole.parts_.push_back(this);
  reason_ = whole.reason_;
}

ContextSet::~ContextSet() {
  if (whole_ == nullptr) return;
  const std::lock_guard lock(whole_->mutex_);
  std::erase(whole_->parts_, this);
}

CollectedContext ContextSet::make(const Topology& topology, RuntimeOptions options) {
  options.trace = options.trace || recording_.trace == runtime::TraceLevel::units;
  options.profile = options.profile || recording_.is_on();
  if (!options.energy) options.energy = recording_.energy;
  if (const int wanted = options.fold; wanted > 0) {
    options.fold = find_period(topology, options);
    const bool is_refused = options.fold == 0 && options.folds_nearly && folds_ == Folds::nearly;
    if (is_refused && unlike_.empty()) unlike_ = sim::Folding::find_obstacle(topology, wanted);
  }
  period_ = std::max(period_, options.fold);
  is_near_ = is_near_ || (options.fold > 0 && options.folds_nearly);
  if (!options.shuffle_ties) options.shuffle_ties = shuffle_ties_;
  CollectedContext torch(new RuntimeContext(topology, std::move(options)), ContextCollector{this});
  simulation_of(*torch).set_beat(beat_);
  const std::lock_guard lock(mutex_);
  live_.push_back(torch.get());
  if (reason_ != ExitCode::ok) simulation_of(*torch).interrupt(reason_);
  make_room(statistics_, live_.size());  // the collector must not fail
  make_room(traced_, live_.size());
  return torch;
}

void ContextCollector::operator()(RuntimeContext* torch) const {
  {
    const std::lock_guard lock(set->mutex_);
    std::erase(set->live_, torch);
    EngineStatistics& statistics = set->statistics_.emplace_back(collect_statistics(*torch));
    if (statistics.ranks_of_each == 1) statistics.unlike = set->unlike_;
    if (set->recording_.trace) set->traced_.push_back(shared_simulation_of(*torch));
    if (set->recording_.profile) set->keep_longest(shared_simulation_of(*torch));
  }
  delete torch;
}

// Returns the least period that is left: of all ranks, or else of groups of the wanted size; 0:
// none is, or the ranks are not to be folded.
int ContextSet::find_period(const Topology& topology, const RuntimeOptions& options) const {
  const bool are_many = topology.system.sip_count >= kManyRanks;
  const bool may_be_near = folds_ == Folds::nearly || (folds_ == Folds::by_number && are_many);
  if (folds_ == Folds::none || (options.folds_nearly && !may_be_near)) return 0;
  for (const int period : list_periods(topology, options.fold)) {
    const bool is_left = period >= least_period_;
    if (is_left && sim::Folding::find_obstacle(topology, period).empty()) return period;
  }
  return 0;
}

bool ContextSet::begin_anew_less_folded(std::string_view why) {
  KB_CHECK(all_ended(), "a context that is to be made anew is alive");
  if (period_ == 0) return false;
  least_period_ = period_ + 1;
  period_ = 0;
  if (std::exchange(is_near_, false)) unlike_ = why;
  statistics_.clear();
  traced_.clear();
  longest_.reset();
  return true;
}

void ContextSet::interrupt(ExitCode reason) {
  const std::lock_guard lock(mutex_);
  reason_ = reason;
  for (RuntimeContext* torch : live_) simulation_of(*torch).interrupt(reason);
  for (ContextSet* part : parts_) part->interrupt(reason);
}

ExitCode ContextSet::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::vector<EngineStatistics> ContextSet::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

bool ContextSet::all_ended() const {
  const std::lock_guard lock(mutex_);
  return live_.empty();
}

std::vector<std::string> ContextSet::traces() const {
  std::vector<std::string> texts;
  for (const auto& simulation : traced_) {
    texts.push_back(runtime::trace_json(*simulation, *recording_.trace));
  }
  return texts;
}

void ContextSet::keep_longest(const std::shared_ptr<runtime::Simulation>& simulation) {
  if (longest_ == nullptr || simulation->timed() > longest_->timed()) longest_ = simulation;
}

runtime::EnergyUse ContextSet::take_energy() {
  const std::lock_guard lock(mutex_);
  runtime::EnergyUse sum;
  for (const EngineStatistics& one : statistics_) sum += one.energy;
  for (RuntimeContext* torch : live_) sum += runtime::measure_energy(simulation_of(*torch));
  runtime::EnergyUse more = sum;
  more -= taken_energy_;
  taken_energy_ = sum;
  return more;
}

void ContextSet::mark(std::string_view name) {
  const std::lock_guard lock(mutex_);
  for (RuntimeContext* torch : live_) profiler::mark(*torch, name);
}

void ContextSet::append(const std::vector<EngineStatistics>& statistics) {
  const std::lock_guard lock(mutex_);
  statistics_.reserve(statistics_.size() + statistics.size() + live_.size());
  statistics_.insert(statistics_.end(), statistics.begin(), statistics.end());
}

void ContextSet::append(const ContextSet& part) {
  KB_CHECK(part.all_ended(), "a part of the work is still under way");
  append(part.statistics_);
  const std::lock_guard lock(mutex_);
  if (part.longest_ != nullptr) keep_longest(part.longest_);
  traced_.reserve(traced_.size() + part.traced_.size() + live_.size());
  traced_.insert(traced_.end(), part.traced_.begin(), part.traced_.end());
}

}  // namespace kernbench::benches
