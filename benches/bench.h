// A bench: one file, registered by name, run by `kernbench run --bench NAME`.
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

#include "benches/collected_context.h"
#include "benches/console.h"
#include "benches/row.h"
#include "benches/settings.h"
#include "ccl/config.h"
#include "sim_engine/base/path_declaration.h"
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
  // What the bench's settings make of ccl.yaml, for all that asks for Bench::ccl(); nullptr: they
  // leave it as it is.
  ccl::Config (*configure)(const Bench& bench) = nullptr;
  bool is_on_one_device = false;  // SIP 0, however many there are
};

struct BenchRequest;

// What a bench is given.  It submits work, adds rows and returns; what it throws ends the run with
// that error's exit code.  For one thread, except for interrupt(); the points of a sweep (sweep.h)
// get a PointContext each.
class Bench {
 public:
  Bench(BenchRequest request, Settings settings, Console& console);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const Topology& topology() const;
  const ccl::Config& ccl() const;
  int world_size() const;  // of ccl(): PEs that are ranks, else SIPs
  // For a bench of SIPs that are ranks.  Throws ConfigError KB-Y043 if ccl() has PEs as ranks.
  void check_rank_is_sip() const;
  std::uint64_t seed() const;
  const Settings& settings() const;
  int jobs() const;
  ProcessTeam* team() const;
  // Whether this process prints and writes: all but the first one of a team do neither.
  bool leads() const;
  bool wants_trace() const;

  // A hash of all that results depend on: this build of the program, the files it was given, the
  // seed, the settings.  Results that were saved under another hash are stale.
  std::uint64_t inputs_hash() const;

  // A RuntimeContext that enters the run's statistics and its trace when it goes out of scope.
  using Context = CollectedContext;

  // One of the run's topology and ccl.yaml; or of the bench's own.  A bench may make many.
  Context make_context();
  Context make_context(const Topology& topology, RuntimeOptions options);

  // A small tensor, copied to device 0 of the run's topology and read back.  For an evaluation
  // bench that may find all its results saved: it shows all the same that the program simulates.
  void submit_sentinel();

  // `ok`: the row has passed the bench's own check.  If one has not, the run ends with exit code 1.
  void add_row(Row row, bool ok = true);

  // Where the bench's files go: --out, or else `otherwise`, a path from the current directory on.
  // A bench that does not ask has its artifacts dropped unless --out is given.  The folder is
  // created when there is something to write.
  const std::filesystem::path& output_folder(std::string_view otherwise);
  const std::filesystem::path& output_folder() const;

  // A file of results, text or binary, written into the output folder when the bench has ended, as
  // a whole or not at all.  `file_name` is unique in its bench and may name a folder in that one.
  // As add_row(), throws Error KB-S001 if the run is interrupted, with what was added kept.
  bool wants_artifacts() const;
  void add_artifact(std::string_view file_name, std::string content);

  // There is none of that name this time: one that an earlier run has left is removed when the
  // artifacts are written.
  void drop_artifact(std::string_view file_name);

  // For people.  A bench that prints nothing has its rows printed as a table.
  void print(std::string_view text);
  // A line of the head: "#   algorithm    intercube_allreduce".
  void note(std::string_view what, std::string_view text);
  Console& console();

  // For the program, from another thread: stops what is being simulated, and what is begun later,
  // with KB-S001 and this exit code.
  void interrupt(ExitCode reason = ExitCode::interrupted);
  bool is_interrupted() const;
  ExitCode interruption() const;  // ok: there is none

  // For the program, before the bench runs.
  void configure(const BenchInfo& info);

  // For the program, when the bench has returned.  Throws Error KB-B001 if it has submitted no
  // work.
  void check_contract(std::string_view name) const;

  // For the program, when the bench has returned: what is wrong if the algorithm that --set, or the
  // defaults of a given --ccl, name has run none of its collectives.
  std::optional<std::string> unused_algorithm() const;

  // For the program, when all results are written: what was kept for the case of an interruption is
  // not needed any more.
  void remove_journals();

  struct Artifact {
    std::string name;
    std::string content;
  };
  const std::vector<Row>& rows() const;
  // From any thread: what is finished so far, points of a sweep that runs among it.
  std::vector<Row> finished_rows() const;
  const std::vector<Artifact>& artifacts() const;
  const std::vector<std::string>& dropped_artifacts() const;
  bool ok() const;
  bool has_printed() const;
  EngineStatistics statistics() const;  // without wall time
  // Of each context, as JSON for Perfetto.
  std::vector<std::string> traces() const;

 private:
  friend class SweepRun;
  struct State;

  void throw_if_interrupted() const;
  void set_sweep(const SweepRun* sweep);  // that runs; null: none

  const std::unique_ptr<State> state_;
};

// A line of the head.
std::string note_line(std::string_view what, std::string_view text);

// Enters a bench into the program's list.  Called by KERNBENCH_BENCH.
bool register_bench(BenchInfo info);

// All benches, by name.
std::vector<const BenchInfo*> registered_benches();

// Throws UsageError KB-U002 with the nearest name if there is none of that name.
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
