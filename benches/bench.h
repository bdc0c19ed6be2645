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
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "benches/console.h"
#include "benches/context_set.h"
#include "benches/process_team.h"
#include "benches/report.h"
#include "benches/settings.h"
#include "ccl/config.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

class Bench;

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

// What `kernbench run` was asked for.
struct BenchRequest {
  Topology topology;
  ccl::Config ccl;
  std::uint64_t seed = 0;
  bool trace = false;
  std::filesystem::path output_folder = {};  // --out; empty if it is not given
  int jobs = 1;                              // points of a sweep that are simulated at once
  std::string inputs = {};                   // the texts of all files that were read
  ProcessTeam* team = nullptr;               // that simulates the points of sweeps; null: alone
};

// What a bench is given.  It submits work, adds rows and returns; what it throws ends the run with
// that error's exit code.  For one thread, except for interrupt(); the points of a sweep (sweep.h)
// get a PointContext each.
class Bench {
 public:
  Bench(BenchRequest request, Settings settings, Console& console);
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const Topology& topology() const { return request_.topology; }
  const ccl::Config& ccl() const { return request_.ccl; }
  int world_size() const;  // of ccl(): PEs that are ranks, else SIPs
  // For a bench of SIPs that are ranks.  Throws ConfigError KB-Y043 if ccl() has PEs as ranks.
  void check_rank_is_sip() const;
  std::uint64_t seed() const { return request_.seed; }
  const Settings& settings() const { return settings_; }
  int jobs() const { return request_.jobs; }
  ProcessTeam* team() const { return request_.team; }
  // Whether this process prints and writes: all but the first one of a team do neither.
  bool leads() const { return team() == nullptr || team()->leads(); }
  bool wants_trace() const { return request_.trace; }

  // A hash of all that results depend on: this build of the program, the files it was given, the
  // seed, the settings.  Results that were saved under another hash are stale.
  std::uint64_t inputs_hash() const;

  // A RuntimeContext that enters the run's statistics and its trace when it goes out of scope.
  using Context = ContextSet::Context;

  // One of the run's topology and ccl.yaml; or of the bench's own.  A bench may make many.
  Context make_context() { return make_context(topology(), {.ccl = ccl()}); }
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
  const std::filesystem::path& output_folder() const { return output_folder_; }

  // A file of results, text or binary, written into the output folder when the bench has ended, as
  // a whole or not at all.  `file_name` is unique in its bench and may name a folder in that one.
  // As add_row(), throws Error KB-S001 if the run is interrupted, with what was added kept.
  bool wants_artifacts() const { return !output_folder_.empty(); }
  void add_artifact(std::string_view file_name, std::string content);

  // There is none of that name this time: one that an earlier run has left is removed when the
  // artifacts are written.
  void drop_artifact(std::string_view file_name);

  // For people.  A bench that prints nothing has its rows printed as a table.
  void print(std::string_view text);
  // A line of the head: "#   algorithm    intercube_allreduce".
  void note(std::string_view what, std::string_view text);
  Console& console() { return console_; }

  // For the program, from another thread: stops what is being simulated, and what is begun later,
  // with KB-S001.
  void interrupt() { contexts_.interrupt(); }
  bool is_interrupted() const { return contexts_.is_interrupted(); }

  // For the program, before the bench runs.
  void configure(const BenchInfo& info);

  // For the program, when the bench has returned.  Throws Error KB-B001 if it has submitted no
  // work.
  void check_contract(std::string_view name) const;

  // For the program, when all results are written: what was kept for the case of an interruption is
  // not needed any more.
  void remove_journals();

  struct Artifact {
    std::string name;
    std::string content;
  };
  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<Artifact>& artifacts() const { return artifacts_; }
  const std::vector<std::string>& dropped_artifacts() const { return dropped_artifacts_; }
  bool ok() const { return ok_; }
  bool has_printed() const { return has_printed_; }
  EngineStatistics statistics() const;  // without wall time
  // Of each context, as JSON for Perfetto.
  std::vector<std::string> traces() const { return contexts_.traces(); }

 private:
  friend class Sweep;

  void throw_if_interrupted() const;

  BenchRequest request_;
  const Settings settings_;
  Console& console_;
  std::filesystem::path output_folder_ = request_.output_folder;
  std::vector<Row> rows_;
  std::vector<Artifact> artifacts_;
  std::vector<std::string> dropped_artifacts_;
  mutable std::optional<std::uint64_t> inputs_hash_;  // once somebody has asked
  std::vector<std::filesystem::path> journals_;       // of sweeps
  bool ok_ = true;
  bool has_printed_ = false;
  ContextSet contexts_{request_.trace};
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
