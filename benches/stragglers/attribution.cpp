#include "benches/stragglers/attribution.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <string_view>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::stragglers {

namespace {

using Kind = Fault::Kind;

bool is_of_links(const Fault& fault) {
  return fault.kind == Kind::bandwidth;
}

template <class Keeps>
std::vector<Fault> select(const std::vector<Fault>& faults, const Keeps& keeps) {
  std::vector<Fault> kept;
  std::ranges::copy_if(faults, std::back_inserter(kept), keeps);
  return kept;
}

// Simulates no step twice.
class KnownSteps {
 public:
  explicit KnownSteps(const StepWith& step) : step_(step) {}

  Time operator()(const std::vector<Fault>& faults) {
    const auto found = std::ranges::find(known_, faults, &Known::faults);
    if (found != known_.end()) return found->time;
    known_.push_back({faults, step_(faults)});
    return known_.back().time;
  }

 private:
  struct Known {
    std::vector<Fault> faults;
    Time time;
  };

  const StepWith& step_;
  std::vector<Known> known_;
};

}  // namespace

double Attribution::slowdown(Time time) const {
  return ideal == Time{0} ? 1 : to_ns(time) / to_ns(ideal);
}

double Attribution::removed_share() const {
  if (actual <= ideal) return 0;
  return to_ns(actual - without_worst) / to_ns(actual - ideal);
}

int worker_of(const Fault& fault) {
  if (fault.rank != Fault::kAllRanks) return fault.rank;
  constexpr std::string_view kSip = "sip";
  const std::string& part = fault.link.empty() ? fault.pe : fault.link;
  int sip = 0;
  if (part.starts_with(kSip)) {
    std::from_chars(part.data() + kSip.size(), part.data() + part.size(), sip);
  }
  return sip;  // a switch's links are shown beside those of SIP 0
}

void check_take_time(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    if (is_of_links(fault) || fault.kind == Kind::clock || fault.kind == Kind::noise) continue;
    throw UsageError("KB-U012",
                     "stragglers: the fault '{}' slows nothing down; give bandwidth=, clock= and "
                     "compute= alone",
                     fault.text);
  }
}

std::vector<Fault> by_worker(const std::vector<Fault>& faults, int workers) {
  std::vector<Fault> of_workers;
  for (const Fault& fault : faults) {
    const bool is_of_all = fault.kind == Kind::noise && fault.rank == Fault::kAllRanks;
    if (!is_of_all) of_workers.push_back(fault);
    for (int rank = 0; is_of_all && rank < workers; ++rank) {
      of_workers.push_back(fault);
      of_workers.back().rank = rank;
    }
  }
  return of_workers;
}

Attribution attribute(const std::vector<Fault>& faults, const StepWith& simulate) {
  KnownSteps step(simulate);
  Attribution result{.actual = step(faults), .ideal = step({})};
  result.computing_alone = step(select(faults, [](const Fault& one) { return !is_of_links(one); }));
  result.links_alone = step(select(faults, is_of_links));
  std::set<int> workers;
  for (const Fault& fault : faults) workers.insert(worker_of(fault));
  for (const int worker : workers) {
    const Time alone =
        step(select(faults, [&](const Fault& one) { return worker_of(one) == worker; }));
    if (alone <= result.worst_alone) continue;
    result.worst_alone = alone;
    result.worst = worker;
  }
  result.without_worst =
      step(select(faults, [&](const Fault& one) { return worker_of(one) != result.worst; }));
  return result;
}

}  // namespace kernbench::benches::stragglers
