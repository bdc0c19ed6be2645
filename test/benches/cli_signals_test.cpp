// Signals and limits of the host, while the program works: exit codes, what is kept, what is left.

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::cli_signals_test {

using Catch::Contains;
using Catch::StartsWith;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

// Interrupted a second after its start.
ProgramResult run_until(int signal, const std::string& bench, const TemporaryFolder& folder,
                        int signal_count = 1) {
  return run_program({"run", "--bench", bench, "--topology", "tiny", "--json", "r.json", "--csv",
                      "r.csv", "--trace", "t.json", "--jobs", "1"},
                     {.program = OWN_BENCHES_PROGRAM,
                      .folder = folder.path(""),
                      .cpu_limit_s = 4,
                      .interrupt_after_s = 1,
                      .signal = signal,
                      .signal_count = signal_count});
}

}  // namespace

TEST_CASE("a signal ends a run in order, with its own exit code", "[cli][signals]") {
  const auto [signal, exit_code] =
      GENERATE(std::pair(SIGINT, 130), std::pair(SIGTERM, 143), std::pair(SIGHUP, 129));
  const TemporaryFolder folder;
  const ProgramResult result = run_until(signal, "never-ends", folder);
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.err, StartsWith("kernbench: error: [KB-S001] interrupted at simulated time "));
  CHECK(Json::parse(folder.read("r.json"))["rows"] == Json::parse(R"([{"finished": 1}])"));
  CHECK(folder.names() == std::vector<std::string>{"r.csv", "r.json", "t.json"});
}

TEST_CASE("a signal to the process and to its group is one end", "[cli][signals]") {
  const int signal = GENERATE(SIGTERM, SIGHUP);
  const TemporaryFolder folder;
  const ProgramResult result = run_until(signal, "never-ends", folder, 2);
  CHECK(result.exit_code == 128 + signal);
  CHECK(Json::parse(folder.read("r.json"))["rows"] == Json::parse(R"([{"finished": 1}])"));
}

#if !defined(KERNBENCH_ASAN)  // a child of a process with threads may hang in it
TEST_CASE("a signal to a process that a bench has forked writes nothing", "[cli][signals]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program({"run", "--bench", "forks", "--topology", "tiny", "--json", "r.json"},
                  {.program = OWN_BENCHES_PROGRAM, .folder = folder.path("")});
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(Json::parse(folder.read("r.json"))["rows"] ==
        Json::parse(R"([{"child": 143, "has_written": false}])"));
}
#endif

TEST_CASE("an interrupt does not wait for what the host computes", "[cli][signals]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_until(SIGTERM, "host-computes", folder);
  CHECK(result.exit_code == 143);
  CHECK_THAT(result.err, test::Says("KB-S001", "interrupted", "2", "while", "computed"));
  CHECK(Json::parse(folder.read("r.json"))["rows"] ==
        Json::parse(R"([{"finished": 0}, {"finished": 1}])"));
  CHECK(folder.names() == std::vector<std::string>{"r.csv", "r.json"});
}

TEST_CASE("an interrupt names the rank that computes", "[cli][signals]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_until(SIGINT, "rank-computes", folder);
  CHECK(result.exit_code == 130);
  CHECK_THAT(result.err, Catch::Matches("kernbench: error: \\[KB-S001\\] interrupted after 1 rows, "
                                        "while the host computed\n  rank 1 runs; its last call: "
                                        "barrier#0 at own_benches.cpp:[0-9]+\n"));
}

// The number of processes that work in a folder.
int processes_in(const TemporaryFolder& folder) {
  int count = 0;
  for (const auto& process : fs::directory_iterator("/proc")) {
    std::error_code ignored;
    const fs::path works_in = fs::read_symlink(process.path() / "cwd", ignored);
    if (works_in == fs::path(folder.path("")).parent_path()) ++count;
  }
  return count;
}

TEST_CASE("points that are finished are kept when another one computes", "[cli][signals][sweep]") {
  const std::string jobs = GENERATE("1", "3");
  const TemporaryFolder folder;
  const ProgramResult result = run_program(
      {"run", "--bench", "point-computes", "--topology", "tiny", "--json", "r.json", "--jobs",
       jobs},
      {.program = OWN_BENCHES_PROGRAM, .folder = folder.path(""), .interrupt_after_s = 1});
  CHECK(processes_in(folder) == 0);
  CHECK(result.exit_code == 130);
  CHECK(Json::parse(folder.read("r.json"))["rows"] == Json::parse(R"([{"i": 0}, {"i": 1}])"));
}

TEST_CASE("processes of points end with the program, whatever ends it", "[cli][signals][sweep]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program({"run", "--bench", "point-computes", "--topology", "tiny", "--jobs", "3"},
                  {.program = OWN_BENCHES_PROGRAM,
                   .folder = folder.path(""),
                   .interrupt_after_s = 1,
                   .signal = SIGKILL});
  CHECK(result.exit_code == 128 + SIGKILL);
  while (processes_in(folder) > 0) ::usleep(1'000);  // the suite's time limit ends a failing test
}

#if !defined(KERNBENCH_ASAN)  // which takes SIGSEGV
TEST_CASE("whatever signal ends the program, nothing half-written is left", "[cli][signals]") {
  const int signal =
      GENERATE(SIGQUIT, SIGABRT, SIGALRM, SIGUSR2, SIGSEGV, SIGXCPU, SIGVTALRM, SIGSYS);
  const TemporaryFolder folder;
  const ProgramResult result = run_until(signal, "never-ends", folder);
  CHECK(result.exit_code == 128 + signal);
  for (const std::string& name : folder.names()) CHECK(name.starts_with("kb-fr-"));  // of abort()
}

#endif

TEST_CASE("SIGUSR1 prints the state of all ranks, and the run goes on", "[cli][signals]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_program(
      {"run", "--bench", "rank-computes", "--topology", "tiny"}, {.program = OWN_BENCHES_PROGRAM,
                                                                  .cpu_limit_s = 2,
                                                                  .interrupt_after_s = 1,
                                                                  .signal = SIGUSR1});
  CHECK(result.exit_code > 128);  // ended by the limit
  // Rank 0 is in the second barrier, or still in the first, which rank 1 may leave before.
  CHECK_THAT(result.err, Contains("kernbench: state of 1 context\n  rank 0 waits; its last call: "
                                  "barrier#") &&
                             Contains("\n  rank 1 runs; its last call: barrier#0 at "));
}

TEST_CASE("SIGUSR1 prints the state of ranks in the processes of points too",
          "[cli][signals][sweep]") {
  const ProgramResult result =
      run_program({"run", "--bench", "point-computes", "--topology", "tiny", "--jobs", "3"},
                  {.program = OWN_BENCHES_PROGRAM,
                   .cpu_limit_s = 2,
                   .interrupt_after_s = 1,
                   .signal = SIGUSR1});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, StartsWith("kernbench: state of 1 context\n  rank 0 runs"));
  CHECK_THAT(result.err, test::Says("KB-B004", "'point 2'", "killed by signal 9"));
}

#if !defined(KERNBENCH_ASAN)  // which needs terabytes of addresses
constexpr long kTooLittle = 60'000;
constexpr long kPlenty = 2'000'000;

TEST_CASE("without memory the program says so, whatever it was about to do", "[cli][limits]") {
  const long kib = GENERATE(values({kPlenty}), range(kTooLittle, 260'000L, 10'000L));
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program({"run", "--bench", "ccl-allreduce", "--topology", "ring_1d_6", "--set",
                   "n_elem=4096", "--json", folder.path("r.json")},
                  {.address_space_limit_kib = kib});
  CAPTURE(kib, result.err);
  const bool is_fine = result.exit_code == 0;
  if (kib == kTooLittle) CHECK_FALSE(is_fine);
  if (kib == kPlenty) CHECK(is_fine);
  if (!is_fine) CHECK(result.exit_code == 71);
  if (!is_fine) CHECK_THAT(result.err, Contains("kernbench: error: [KB-L00"));
  CHECK(folder.names() ==
        (is_fine ? std::vector<std::string>{"r.json"} : std::vector<std::string>()));
}

TEST_CASE("values that cannot fit are refused before they are made", "[cli][limits]") {
  const ProgramResult result = run_program({"run", "--bench", "ccl-allreduce", "--topology", "tiny",
                                            "--set", "n_elem=1000000000", "dtype=f32"},
                                           {.cpu_limit_s = 2, .address_space_limit_kib = kPlenty});
  CHECK(result.exit_code == 71);
  CHECK_THAT(result.err, Contains("[KB-L001] the values of this size need at least ") &&
                             Contains(" GB of memory, of which the host has 2.0; "));
}
#endif

TEST_CASE("a small stack is enough", "[cli][limits]") {
  for (const char* bench : {"ccl-allreduce", "gemm"}) {
    const ProgramResult result =
        run_program({"run", "--bench", bench, "--topology", "tiny"}, {.stack_limit_kib = 100});
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
  }
}

#if !defined(KERNBENCH_ASAN)  // which opens a pipe to look at an object
TEST_CASE("without descriptors the program says so", "[cli][limits]") {
  const int count = GENERATE(4, 5);  // room for one result, or for two
  const ProgramResult result =
      run_program({"run", "--bench", "ccl-allreduce", "--topology", "tiny", "--set", "n_elem=64",
                   "--json", "/dev/null", "--csv", "/dev/null", "--trace", "/dev/null"},
                  {.descriptor_limit = count});
  CHECK(result.exit_code == 71);
  CHECK_THAT(result.err, test::Says("KB-L003", "'/dev/null'", "`ulimit -n`"));
}
#endif

}  // namespace kernbench::test::cli_signals_test
