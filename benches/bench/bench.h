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

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/collected_context.h"
#include "benches/bench/console.h"
#include "benches/bench/row.h"
#include "benches/bench/settings.h"
#include "ccl/config.h"
#include "sim_engine/config/path_declaration.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

class Bench;
class ProcessTeam;
class SweepRun;
struct EngineStatistics;

struct BenchInfo {
  std::string name;
  std::string summary;
  std::vector<SettingInfo> settings;
  void (*run)(Bench& bench) = nullptr;
  // Applies the bench's settings to ccl.yaml; Bench::ccl() returns the result.  nullptr: ccl.yaml
  // is used unchanged.
  ccl::Config (*configure)(const Bench& bench) = nullptr;
  bool is_on_one_device = false;  // it uses SIP 0 alone
};

struct BenchRequest;

// The interface that a bench gets.  It submits work, adds rows and returns; an error that it throws
// ends the run with that error's exit code.  For one thread, except for interrupt() and
// finished_rows(); each point of a sweep (sweep.h) gets a PointContext of its own.
class Bench {
 public:
  Bench(BenchRequest request, Settings settings, Console& console);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const Topology& topology() const;
  const ccl::Config& ccl() const;
  int world_size() const;  // ccl()'s world_size if PEs are ranks, else the number of SIPs
  // For a bench whose ranks are SIPs.  Throws ConfigError KB-Y043 if ccl() makes PEs the ranks.
  void check_rank_is_sip() const;
  std::uint64_t seed() const;
  const Settings& settings() const;
  int jobs() const;
  ProcessTeam* team() const;
  // True if this process prints and writes: only the first process of a team does.
  bool leads() const;
  bool wants_trace() const;

  // A hash of everything that results depend on: this build of the program, the files it was given,
  // the seed, the settings.  Results saved under another hash are stale.
  std::uint64_t inputs_hash() const;

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
  // exit code 1.
  void add_row(Row row, bool ok = true);

  // The folder for the bench's files: --out, or else `otherwise`, a path relative to the current
  // directory.  If the bench does not call this, its artifacts are dropped unless --out is given.
  // The folder is created when there is something to write.
  const std::filesystem::path& output_folder(std::string_view otherwise);
  const std::filesystem::path& output_folder() const;

  // Adds a file of results, text or binary, which is written into the output folder when the bench
  // has ended, as a whole or not at all.  `file_name` is unique in its bench and may name a
  // subfolder.  Like add_row(), throws Error KB-S001 if the run is interrupted; what was added is
  // kept.
  bool wants_artifacts() const;
  void add_artifact(std::string_view file_name, std::string content);

  // This run has no artifact of that name: one left by an earlier run is removed when the artifacts
  // are written.
  void drop_artifact(std::string_view file_name);

  // Prints text for people.  If a bench prints nothing, its rows are printed as a table.
  void print(std::string_view text);
  // Prints a line of the head: "#   algorithm     intercube_allreduce".
  void note(std::string_view what, std::string_view text);
  Console& console();

  // For the program, from another thread: stops all present and later simulations with KB-S001 and
  // this exit code.
  void interrupt(ExitCode reason = ExitCode::interrupted);
  bool is_interrupted() const;
  ExitCode interruption() const;  // ok: not interrupted

  // For the program, before the bench runs.
  void configure(const BenchInfo& info);

  // For the program, when the bench has returned.  Throws Error KB-B001 if the bench has submitted
  // no work.
  void check_contract(std::string_view name) const;

  // For the program, when the bench has returned: a warning if --set or the given --ccl names an
  // algorithm that has run none of the bench's collectives, else nullopt.
  std::optional<std::string> unused_algorithm() const;

  // For the program, when all results are written: removes the journals, which were kept for the
  // case of an interruption.
  void remove_journals();

  struct Artifact {
    std::string name;
    std::string content;
  };
  const std::vector<Row>& rows() const;
  // From any thread: the rows finished so far, including those of a running sweep.
  std::vector<Row> finished_rows() const;
  const std::vector<Artifact>& artifacts() const;
  const std::vector<std::string>& dropped_artifacts() const;
  bool ok() const;
  bool has_printed() const;
  EngineStatistics statistics() const;  // without wall time
  // The trace of each context, as JSON for Perfetto.
  std::vector<std::string> traces() const;

 private:
  friend class SweepRun;
  struct State;

  void throw_if_interrupted() const;
  void set_sweep(const SweepRun* sweep);  // the running sweep; null: none

  const std::unique_ptr<State> state_;
};

// Formats a line of the head.
std::string note_line(std::string_view what, std::string_view text);

// Enters a bench into the program's list.  Called by KERNBENCH_BENCH.
bool register_bench(BenchInfo info);

// All benches, by name.
std::vector<const BenchInfo*> registered_benches();

// Finds a bench by name.  Throws UsageError KB-U002 with the nearest name if there is no such
// bench.
const BenchInfo& find_bench(std::string_view name);

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
