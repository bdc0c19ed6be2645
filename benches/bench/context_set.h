// The contexts that one thread simulates with: those of a bench, or of one point of its sweep.
//
// Their results are kept in the order in which they ended, so that the results do not depend on
// what other threads do meanwhile.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/report.h"
#include "runtime/profiler/energy.h"
#include "runtime/profiler/profile.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

// Says what the contexts of a set record.  All of them record the same.
struct Recording {
  std::optional<runtime::TraceLevel> trace = {};  // nullopt: no traces are written
  bool energy = false;                            // what the energy of what is timed is made of
  bool profile = false;  // the longest simulation is kept with what explains its time

  // True if simulations are kept for what is made of them at the end.
  bool is_on() const { return trace || profile; }
};

// Says which ranks are simulated once (RuntimeOptions::fold), where a context lets them.
enum class Folds : std::uint8_t {
  none,       // each is simulated
  exactly,    // those that are alike
  nearly,     // and those that are nearly alike (RuntimeOptions::folds_nearly)
  by_number,  // nearly where there are at least kManyRanks, else exactly
};
// People wait for a step of so many ranks if each is simulated.
inline constexpr int kManyRanks = 32;

class ContextSet {
 public:
  // `shuffle_ties`: RuntimeOptions::shuffle_ties of them all.
  explicit ContextSet(const Recording& recording,
                      std::optional<std::uint64_t> shuffle_ties = std::nullopt)
      : recording_(recording), shuffle_ties_(shuffle_ties) {}
  // A child set for a part of `whole`'s work: interrupting `whole` interrupts it too.  REQUIRES:
  // `whole` outlives it
  explicit ContextSet(ContextSet& whole) : ContextSet(whole, whole.recording_) {}
  // A child set that records something else.
  ContextSet(ContextSet& whole, const Recording& recording)
      : ContextSet(whole, recording, whole.shuffle_ties_) {}
  // A child set whose ties are shuffled with a seed of its own, and which records nothing.
  ContextSet(ContextSet& whole, std::uint64_t shuffle_ties)
      : ContextSet(whole, Recording{}, shuffle_ties) {}
  // REQUIRES: all_ended()
  ~ContextSet();
  ContextSet(const ContextSet&) = delete;
  ContextSet& operator=(const ContextSet&) = delete;

  using Context = CollectedContext;

  const Recording& recording() const { return recording_; }

  // RuntimeOptions::fold, the period of the ranks, has an effect only after let_ranks_fold().  It
  // becomes the least period of those that are left by which the machine can be folded: 1 or 2,
  // with which all ranks do alike, or else that of the ranks or twice it; of nodes the number of
  // SIPs in an outermost one, if the period of the ranks divides it.
  Context make(const Topology& topology, RuntimeOptions options);
  void let_ranks_fold(Folds which) { folds_ = which; }
  // Forgets what has been simulated, since its ranks proved to be unlike, as `why` says: from now
  // on they are folded by a longer period.  Returns false, and does nothing, if they were not.
  // REQUIRES: all_ended()
  bool begin_anew_less_folded(std::string_view why);

  // Calls `beat` now and then while an own context of the set simulates (Simulation::set_beat).
  void set_beat(runtime::Simulation::Beat beat) { beat_ = std::move(beat); }

  // May be called from any thread.  Stops all present and later simulations of the set with KB-S001
  // and this exit code.
  void interrupt(ExitCode reason = ExitCode::interrupted);
  bool is_interrupted() const { return reason() != ExitCode::ok; }
  // The reason of the interruption; ok if there is none.
  ExitCode reason() const;

  // True if no context of the set is alive.
  bool all_ended() const;

  // Statistics and traces of the contexts that have ended.
  std::vector<EngineStatistics> statistics() const;
  std::vector<std::string> traces() const;  // as JSON for Perfetto
  // The simulation of which the most time was timed, the first if several are equal; nullptr if
  // they are not profiled, or none has ended.
  const runtime::Simulation* longest() const { return longest_.get(); }

  // Returns the energy of what the contexts have timed since the last call.
  runtime::EnergyUse take_energy();

  // Marks this instant in all live contexts.
  void mark(std::string_view name);

  // Adds statistics of contexts of another process, or of a part.
  void append(const std::vector<EngineStatistics>& statistics);
  // Takes over everything that a part has done.  REQUIRES: part.all_ended()
  void append(const ContextSet& part);

 private:
  friend struct ContextCollector;

  ContextSet(ContextSet& whole, const Recording& recording,
             std::optional<std::uint64_t> shuffle_ties);
  int find_period(const Topology& topology, const RuntimeOptions& options) const;
  void keep_longest(const std::shared_ptr<runtime::Simulation>& simulation);

  const Recording recording_;
  const std::optional<std::uint64_t> shuffle_ties_;
  ContextSet* const whole_ = nullptr;
  runtime::Simulation::Beat beat_;
  Folds folds_ = Folds::none;
  std::string unlike_;  // why ranks are folded less than they were
  int least_period_ = 1;
  int period_ = 0;        // the longest by which a context folds, since the set began anew
  bool is_near_ = false;  // one of them folds ranks that are nearly alike
  std::vector<EngineStatistics> statistics_;  // without wall time
  std::vector<std::shared_ptr<runtime::Simulation>> traced_;
  std::shared_ptr<runtime::Simulation> longest_;
  runtime::EnergyUse taken_energy_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<RuntimeContext*> live_;
  std::vector<ContextSet*> parts_;
  ExitCode reason_ = ExitCode::ok;
};

}  // namespace kernbench::benches
