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
#include <vector>

#include "benches/bench/collected_context.h"
#include "benches/bench/report.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

class ContextSet {
 public:
  // `trace`: all contexts record spans.  `shuffle_ties`: RuntimeOptions::shuffle_ties of them all.
  explicit ContextSet(bool trace, std::optional<std::uint64_t> shuffle_ties = std::nullopt)
      : trace_(trace), shuffle_ties_(shuffle_ties) {}
  // A child set for a part of `whole`'s work: interrupting `whole` interrupts it too.  REQUIRES:
  // `whole` outlives it
  explicit ContextSet(ContextSet& whole) : ContextSet(whole, whole.trace_, whole.shuffle_ties_) {}
  // A child set whose ties are shuffled with a seed of its own, and which records no spans.
  ContextSet(ContextSet& whole, std::uint64_t shuffle_ties)
      : ContextSet(whole, false, shuffle_ties) {}
  // REQUIRES: all_ended()
  ~ContextSet();
  ContextSet(const ContextSet&) = delete;
  ContextSet& operator=(const ContextSet&) = delete;

  using Context = CollectedContext;

  Context make(const Topology& topology, RuntimeOptions options);

  // From any thread: stops all present and later simulations of the set with KB-S001 and this exit
  // code.
  void interrupt(ExitCode reason = ExitCode::interrupted);
  bool is_interrupted() const { return reason() != ExitCode::ok; }
  // The reason of the interruption; ok if there is none.
  ExitCode reason() const;

  // True if no context of the set is alive.
  bool all_ended() const;

  // Statistics and traces of the contexts that have ended.
  std::vector<EngineStatistics> statistics() const;
  std::vector<std::string> traces() const;  // as JSON for Perfetto

  // Adds statistics of contexts of another process, or of a part.
  void append(const std::vector<EngineStatistics>& statistics);
  // Takes over everything that a part has done.  REQUIRES: part.all_ended()
  void append(const ContextSet& part);

 private:
  friend struct ContextCollector;

  ContextSet(ContextSet& whole, bool trace, std::optional<std::uint64_t> shuffle_ties);

  const bool trace_;
  const std::optional<std::uint64_t> shuffle_ties_;
  ContextSet* const whole_ = nullptr;
  std::vector<EngineStatistics> statistics_;  // without wall time
  std::vector<std::shared_ptr<runtime::Simulation>> traced_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<RuntimeContext*> live_;
  std::vector<ContextSet*> parts_;
  ExitCode reason_ = ExitCode::ok;
};

}  // namespace kernbench::benches
