// A bench is one file.  It is registered by name and run by `kernbench run --bench NAME`.
//
//   KERNBENCH_BENCH("my-bench", "what it measures", {"n_elem", "1024", "elements per rank"}) {
//     auto torch = bench.make_context();
//     torch->distributed.init_process_group("ahbm");
//     ...
//     bench.add_row(benches::Row().set("n_elem", n).set("time_ns", torch->engine().now_ns()));
//   }
//   int main(int argc, char** argv) { return kernbench::benches::main(argc, argv); }
//
// A bench outside this project does the same with <kernbench/kernbench.h> and gets the same command
// line.  Its file belongs to the executable: the linker drops registrations from libraries.

#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "benches/bench/row.h"
#include "benches/bench/settings.h"
#include "ccl/core/config.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

class ContextSet;

struct ContextCollector {
  ContextSet* set;
  void operator()(RuntimeContext* torch) const;
};

// A RuntimeContext that enters its statistics and its trace in its set when it goes out of scope.
using CollectedContext = std::unique_ptr<RuntimeContext, ContextCollector>;

class Bench;
class BenchRun;

// The ranks of a bench, as the head of its report names them.
enum class BenchRanks : std::uint8_t {
  world,  // Bench::world_size()
  one,    // SIP 0 alone
  own,    // each point has its own, or devices without ranks, as the bench says
};

struct BenchInfo {
  std::string name;
  std::string summary;
  std::vector<SettingInfo> settings;
  void (*run)(Bench& bench) = nullptr;
  // Applies the bench's settings to ccl.yaml; Bench::ccl() returns the result.  nullptr: ccl.yaml
  // is used unchanged.
  ccl::Config (*configure)(const Bench& bench) = nullptr;
  BenchRanks ranks = BenchRanks::world;
  int tie_orders = 0;  // --tie-orders, if it is not given
  // True if all rows have the same columns: the first tells whether --plot names one of them.
  bool has_like_rows = false;
};

// The interface that a bench gets.  It submits work, adds rows and returns; an error that it throws
// ends the run with that error's exit code.  For one thread; each point of a sweep gets a
// PointContext of its own.
class Bench {
 public:
  explicit Bench(BenchRun& run) : run_(run) {}

  const Topology& topology() const;
  const ccl::Config& ccl() const;
  int world_size() const;  // ccl()'s world_size if PEs are ranks, else the number of SIPs
  std::uint64_t seed() const;
  const Settings& settings() const;

  // A RuntimeContext that enters the run's statistics and its trace when it goes out of scope.
  using Context = CollectedContext;

  // Makes a context with the run's topology and ccl.yaml, or with the bench's own.  A bench may
  // make many.
  Context make_context();
  Context make_context(const Topology& topology, RuntimeOptions options);

  // Copies a small tensor to device 0 of the run's topology and reads it back.  An evaluation bench
  // that may find all its results saved calls it, to show that the program still simulates.
  void submit_sentinel();

  // Adds a row.  `ok`: it has passed the bench's own check; if any row has not, the run ends with
  // exit code 1 and an error that names the row and says `why`.
  void add_row(Row row, bool ok = true, std::string_view why = "");

  // The folder for the bench's files: --out, or else `otherwise`, a path relative to the current
  // directory.  If the bench does not call this, its artifacts are dropped unless --out is given.
  // The folder is created when there is something to write.
  const std::filesystem::path& output_folder(std::string_view otherwise);

  // Adds a file of results, text or binary, which is written into the output folder when the bench
  // has ended, as a whole or not at all.  `file_name` is unique in its bench and may name a
  // subfolder.  Like add_row(), throws Error KB-S001 if the run is interrupted; what was added is
  // kept.
  void add_artifact(std::string_view file_name, std::string content);

  // Prints text for people, and before the first context is made, once it is: what refuses a run
  // comes before all text.  If a bench prints nothing, its rows are printed as a table.
  void print(std::string_view text);
  // Prints a line of the head: "#   algorithm     intercube_allreduce".
  void note(std::string_view what, std::string_view text);

  // The run that this bench is a part of, for sweeps and for the program (bench_run.h).
  BenchRun& run() const { return run_; }

 private:
  BenchRun& run_;
};

// The setting `algorithm`, and the function of BenchInfo::configure that applies it.
SettingInfo algorithm_setting();
ccl::Config choose_algorithm(const Bench& bench);

// A bench whose ranks are SIPs calls this.  Throws ConfigError KB-Y043 if its ccl() makes PEs the
// ranks.
void check_rank_is_sip(const Bench& bench);
// For a bench whose clock starts when all ranks have begun.  Throws UsageError KB-U012 if a fault
// lets a rank begin late, since that would not show.
void check_ranks_begin_together(const Bench& bench);

// Enters a bench into the program's list.  Called by KERNBENCH_BENCH.  Throws UsageError KB-U006 if
// the name is taken.
bool register_bench(BenchInfo info);

}  // namespace kernbench::benches

#define KERNBENCH_JOINED_(a, b) a##b
#define KERNBENCH_JOINED(a, b) KERNBENCH_JOINED_(a, b)

// KERNBENCH_BENCH("name", "summary", {"key", "fallback", "help"}, ...) { body, given `bench` }
#define KERNBENCH_BENCH(name, summary, ...) \
  KERNBENCH_BENCH_AT(KERNBENCH_JOINED(kernbench_bench_, __LINE__), name, summary, __VA_ARGS__)
#define KERNBENCH_BENCH_AT(function, name, summary, ...)                              \
  static void function(::kernbench::benches::Bench& bench);                           \
  static const bool KERNBENCH_JOINED(function, _is_registered) [[maybe_unused]] =     \
      ::kernbench::benches::register_bench({name, summary, {__VA_ARGS__}, function}); \
  static void function([[maybe_unused]] ::kernbench::benches::Bench& bench)

namespace kernbench::benches {

// A sweep: independent points, each simulated with engines of its own, on all cores: with several
// jobs in processes that are copies of this one (ADR-0054).
//
//   benches::Sweep sweep(bench, "latency");
//   for (const std::int64_t n_elem : sizes) {
//     sweep.add(fmt::format("{} elements", n_elem), [n_elem](benches::PointContext& point) {
//       const auto torch = point.make_context();
//       ...
//       point.check(wrong == 0);
//       return benches::Row().set("n_elem", n_elem).set("crit_ns", ...);
//     });
//   }
//   const std::vector<benches::Row> rows = sweep.run();
//
// Rows, statistics, traces and errors are those of the points in their order, whatever
// `kernbench run --jobs` is and whichever point ends first.
//
// A bench that has an output folder keeps each finished point there, in NAME.journal, until all its
// results are written: after an interruption the same command goes on from there (ADR-0054).  With
// keep_journal() it stays (ADR-0054).

class SweepRun;

// The interface that the function of a point gets.  The function runs in a process or on a thread
// of its own at the same time as other points, so nothing outside of it may be written: what it has
// found are its rows.
class PointContext {
 public:
  PointContext(const Bench& bench, ContextSet& contexts) : bench_(bench), contexts_(contexts) {}

  // The bench, for the run's topology(), ccl(), seed() and settings().
  const Bench& bench() const { return bench_; }
  // The contexts that the point simulates in, for a point that runs another bench.
  ContextSet& contexts() const { return contexts_; }

  // Like Bench::make_context().
  CollectedContext make_context();
  CollectedContext make_context(const Topology& topology, RuntimeOptions options);

  // Records a check.  If any check has not passed, the run ends with exit code 1.
  void check(bool passed) { ok_ = ok_ && passed; }
  bool ok() const { return ok_; }

  // Long work outside a simulation calls this now and then.  Throws Error KB-S001 if the point is
  // not wanted any more.
  void throw_if_interrupted() const;

 private:
  const Bench& bench_;
  ContextSet& contexts_;
  bool ok_ = true;
};

class Sweep {
 public:
  // Returns the rows of a point, in the order of the report.
  using PointFunction = std::function<std::vector<Row>(PointContext&)>;

  // `name` is unique in its bench, and part of a file's name.
  Sweep(Bench& bench, std::string name);
  ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  // Adds a point.  `key` is readable, unique in its sweep, and different from the keys of all other
  // points that this bench could have in any run with the same inputs.  `simulate` returns a Row or
  // a vector of them.  `memory`: what it needs, for limit_memory().
  template <class Function>
  void add(std::string key, Function simulate, Bytes memory = 0);

  // Points that run at once need no more memory than this in a process and its children together.
  // One that needs more runs alone.
  void limit_memory(Bytes all);

  // Keeps the journal when the run has ended, as its saved results.  A later run with the same
  // inputs simulates all points again, unless it wants to `reuse` them.  Call it before run().
  void keep_journal(bool reuse);

  // Simulates all points, adds their rows to the bench's report, and returns them.  Other processes
  // of the bench's team (process_team.h) simulate points too, and get the same rows.  If points
  // fail, throws the error of the first one in order; the rows before it are in the report.  If
  // something has ended the process of a point, the others go on, and it throws Error KB-B004; if
  // the bench is interrupted, KB-S001.  All finished rows are in the report then.  Throws IoError
  // KB-I010 if the journal cannot be created, LimitError KB-L003 if the host lets no thread start.
  // REQUIRES: not called before
  std::vector<Row> run();

 private:
  void add_point(std::string key, PointFunction simulate, Bytes memory);

  const std::unique_ptr<SweepRun> run_;
};

template <class Function>
void Sweep::add(std::string key, Function simulate, Bytes memory) {
  if constexpr (std::same_as<std::invoke_result_t<Function&, PointContext&>, Row>) {
    auto one_row = [simulate = std::move(simulate)](PointContext& point) mutable {
      return std::vector<Row>{simulate(point)};
    };
    add_point(std::move(key), std::move(one_row), memory);
  } else {
    add_point(std::move(key), std::move(simulate), memory);
  }
}

}  // namespace kernbench::benches
