// Tests what a user sees of each class of failure: the exit code, and standard error byte for byte.
//
// The texts are in test/golden/failures.txt; with KERNBENCH_WRITE_GOLDEN set this test writes them.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "test/benches/program_under_test.h"

namespace kernbench::test::failures_test {
namespace {

struct Expected {
  std::string name;
  std::string code;  // that is named; empty: none
  int exit_code;
  std::string record = "";  // the code of the flight record that it leaves; empty: none
};

constexpr int kAborted = 128 + 6;
constexpr int kFault = 128 + 11;

// Classes that are missing here cannot occur: A11, all ranks of a context have one ccl.yaml; B2,
// B3, B8, handles count references and nothing has an address; B6, stacks come without guard pages
// where mappings are scarce (test/runtime/fiber/stack_pool_test.cpp).
const std::vector<Expected> kExpected = {
    {"A1-receive-first", "KB-D001", 20, "KB-D001"},
    {"A2-depth-1", "KB-D001", 20, "KB-D001"},
    {"A2-depth-2", "KB-D001", 20, "KB-D001"},
    {"A2-depth-3", "", 0},
    {"A3-poll", "KB-D002", 20, "KB-D002"},
    {"A3-calls", "KB-D002", 20, "KB-D002"},
    {"A3-kernel", "KB-D002", 20, "KB-D002"},
    {"A4-operation", "KB-C001", 21, "KB-C001"},
    {"A4-async", "", 0},
    {"A5-shape", "KB-C001", 21, "KB-C001"},
    {"A6-dtype", "KB-C001", 21, "KB-C001"},
    {"A7-reduce-op", "KB-C001", 21, "KB-C001"},
    {"A8-root", "KB-C001", 21, "KB-C001"},
    {"A9-members", "KB-C001", 21, "KB-C001"},
    {"A9-member-order", "KB-C001", 21, "KB-C001"},
    {"A9-groups-wait", "KB-D001", 20, "KB-D001"},
    {"A9-groups-circle", "KB-D001", 20, "KB-D001"},
    {"A9-no-member", "", 0},
    {"A10-order", "KB-C001", 21, "KB-C001"},
    {"A10-missing", "KB-C002", 21, "KB-C002"},
    {"A12-returns-early", "KB-C002", 21, "KB-C002"},
    {"A12-message", "KB-D001", 20, "KB-D001"},
    {"A13-exit", "KB-R006", 21, "KB-R006"},
    {"A13-exit-0", "KB-R006", 21, "KB-R006"},
    {"A13-quick-exit", "KB-R006", 21, "KB-R006"},
    {"A13-abort", "KB-R006", kAborted, "KB-R006"},
    {"A13-terminate", "KB-R006", kAborted, "KB-R006"},
    {"A13-pthread-exit", "KB-R006", 21},
    {"A13-kernel", "KB-R006", 21, "KB-R006"},
    {"A13-main", "", 3},
    {"A14-runtime-error", "KB-R001", 1, "KB-R001"},
    {"A14-int", "KB-R001", 1, "KB-R001"},
    {"A14-nullptr", "KB-R001", 1, "KB-R001"},
    {"A14-null-what", "KB-R001", 1, "KB-R001"},
    {"A14-cancelled", "KB-R015", 21, "KB-R001"},
    {"A14-escapes", "KB-R001", 1, "KB-R001"},
    {"A15-kernel-throws", "KB-K001", 22, "KB-R001"},
    {"A16-work-fails", "KB-C022", 21, "KB-C022"},
    {"A17-all-throw", "KB-R001", 1, "KB-R001"},
    {"A18-throws-again", "KB-R001", 1, "KB-R001"},
    {"A18-destructor", "KB-R008", 21},
    {"A19-swallows", "KB-R009", 1, "KB-R001"},
    {"A20-nested-spawn", "KB-R004", 21, "KB-R001"},
    {"A20-joined-by-a-rank", "KB-R004", 21, "KB-R001"},
    {"A21-before-init", "KB-R002", 21, "KB-R001"},
    {"A21-init-twice", "KB-R002", 21},
    {"A21-after-destroy", "KB-R002", 21, "KB-R001"},
    {"A21-destroy-without-init", "KB-R002", 21},
    {"A21-alone", "KB-C002", 21},
    {"A22-never-waited", "KB-C010", 0},
    {"A22-ended-unseen", "KB-C010", 0},
    {"A22-another-waits", "KB-C010", 21, "KB-R001"},
    {"A22-seen", "", 0},
    {"A23-kernel", "KB-R012", 21, "KB-R001"},
    {"A25-thread", "KB-R016", 21},
    {"B1-undefined", "KB-M001", 22, "KB-R001"},
    {"B4-not-joined", "KB-R013", 0},
    {"B4-thrown-before-join", "KB-R002", 21},
    {"B4-joined-afterwards", "KB-R013", 21},
    {"B4-destroyed-by-a-worker", "KB-R017", 21},
    {"B6-no-memory", "KB-L002", 71},
    {"B6-kernel-no-memory", "KB-L002", 71, "KB-L002"},
#if !defined(KERNBENCH_ASAN)  // which has its own word for faults, and may hang in a child
    {"F3-fork", "", 0},
    {"B5-stack", "KB-R005", 71},
    {"B5-fault", "KB-R014", kFault},
    {"B5-fault-kernel", "KB-R014", kFault},
#endif
    {"B7-hbm", "KB-M010", 22},
    {"B9-overflow", "KB-M012", 22},
    {"B10-one-device", "KB-C011", 21, "KB-R001"},
    {"B10-another-context", "KB-M013", 22, "KB-R001"},
    {"C13-rank-spins", "KB-D004", 20},
    {"F1-interrupt", "KB-S001", 130},
    {"F1-terminate", "KB-S001", 143},
    {"F1-hang-up", "KB-S001", 129},
    {"F1-abort", "KB-R006", kAborted, "KB-R006"},
    {"F1-kernel", "KB-S001", 143},
    {"F2-state", "", 0},
    {"G2-host-read", "", 0},
    {"G3-host-write", "KB-G003", 21, "KB-R001"},
    {"G3-two-groups", "KB-G003", 21, "KB-R001"},
    {"G3-kernel", "KB-G003", 21, "KB-R001"},
    {"G4-outputs", "KB-C020", 21, "KB-R001"},
    {"X-bug", "KB-X001", 70, "KB-X001"},
};

const std::string kGolden = KERNBENCH_ROOT "/test/golden/failures.txt";

std::string heading(const Expected& expected) {
  return "=== " + expected.name + ": exit " + std::to_string(expected.exit_code) + "\n";
}

// The blocks of the golden file, by their headings.
std::map<std::string, std::string> read_golden() {
  std::map<std::string, std::string> blocks;
  std::istringstream text(read_file(kGolden));
  std::string block;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("=== ")) block = line + "\n";
    if (!block.empty() && !line.starts_with("=== ")) blocks[block] += line + "\n";
    if (line.starts_with("=== ")) blocks[block];
  }
  return blocks;
}

ProgramResult run_case(const std::string& name, const TemporaryFolder& folder) {
  return run_program({name}, {.folder = folder.path(""), .cpu_limit_s = 10});
}

TEST_CASE("each failure ends at once, with its exit code and its text, twice the same",
          "[failures]") {
  const bool write = std::getenv("KERNBENCH_WRITE_GOLDEN") != nullptr;
  std::string golden =
      "# What a user sees of each failure: standard error of failure_cases NAME, and its exit "
      "code.\n"
      "# KERNBENCH_WRITE_GOLDEN=1 failures_test writes it anew; every change is to be read.\n";
  const auto known = write ? std::map<std::string, std::string>() : read_golden();
  for (const Expected& expected : kExpected) {
    INFO(expected.name);
    const TemporaryFolder folder;
    const TemporaryFolder other;
    const ProgramResult first = run_case(expected.name, folder);
    const ProgramResult second = run_case(expected.name, other);
    CHECK(first.exit_code == expected.exit_code);
    CHECK(second.exit_code == expected.exit_code);
    CHECK(first.err == second.err);
    CHECK(first.out.empty());
    const bool is_named = first.err.find("[" + expected.code + "]") != std::string::npos;
    CHECK(is_named == !expected.code.empty());
    std::vector<std::string> files;
    if (!expected.record.empty()) files.push_back("kb-fr-" + expected.record + ".json");
    CHECK(folder.names() == files);
    golden += heading(expected) + first.err;
    if (write) continue;
    REQUIRE(known.contains(heading(expected)));
    CHECK(known.at(heading(expected)) == first.err);
  }
  if (write) std::ofstream(kGolden) << golden;
}

TEST_CASE("every case is in the table", "[failures]") {
  std::string names;
  for (const Expected& expected : kExpected) names += expected.name + "\n";
  std::istringstream listed(run_program({"list"}).out);
  for (std::string name; std::getline(listed, name);) {
#if defined(KERNBENCH_ASAN)
    if (name.starts_with("B5-") || name == "F3-fork") continue;
#endif
    INFO(name);
    CHECK(names.find(name + "\n") != std::string::npos);
  }
}

}  // namespace
}  // namespace kernbench::test::failures_test
