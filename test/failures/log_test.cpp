// KERNBENCH_LOG, as a user sets it.

#include <catch2/catch.hpp>

#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::log_test {
namespace {

ProgramResult run_with(const std::string& topics, const std::string& name) {
  const TemporaryFolder folder;
  return run_program(
      {name},
      {.folder = folder.path(""), .cpu_limit_s = 10, .environment = {{"KERNBENCH_LOG", topics}}});
}

// Without the numbers of source lines.
std::string without_lines(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    plain += text[i];
    if (!plain.ends_with(".cpp:")) continue;
    while (i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])) != 0) ++i;
  }
  return plain;
}

TEST_CASE("distributed tells of each collective on each rank", "[log]") {
  const std::string text = without_lines(run_with("distributed", "A4-async").err);
  CHECK(text ==
        "kernbench: 0 ns: distributed: rank 0: barrier#0 at collective_cases.cpp: issued\n"
        "kernbench: 0 ns: distributed: rank 0: barrier#0 at collective_cases.cpp: started\n"
        "kernbench: 0 ns: distributed: rank 1: barrier#0 at collective_cases.cpp: issued\n"
        "kernbench: 0 ns: distributed: rank 1 (async): barrier#0 at collective_cases.cpp: started\n"
        "kernbench: 0 ns: distributed: main: barrier#0 at collective_cases.cpp: completed (rank 1)"
        "\n"
        "kernbench: 0 ns: distributed: rank 0: barrier#0 at collective_cases.cpp: completed\n");
}

TEST_CASE("fiber and launch tell of ranks and kernels", "[log]") {
  const std::string text = run_with("fiber,launch", "A2-depth-3").err;
  for (const char* line :
       {"kernbench: 0 ns: fiber: rank 0: begins\n",
        ": launch: rank 0 (queued): kernel 'shift' on 1 PEs begins\n",
        "kernbench: 0 ns: fiber: rank 0: waits for kernel 'shift' at rank_cases.cpp:26 on stream 0 "
        "of device 0\n",
        ": fiber: rank 0 (queued): waits for kernel 'shift' on 1 PEs of sip0\n",
        ": fiber: kernel 'shift' on sip0.cube0.pe0: ends\n",
        ": launch: rank 2 (queued): kernel 'shift' on 1 PEs ends\n", ": fiber: rank 2: ends\n"}) {
    CHECK(text.find(line) != std::string::npos);
  }
  CHECK(text.find(": distributed: ") == std::string::npos);
}

TEST_CASE("all is everything, a name that is none is refused", "[log]") {
  const std::string all = run_with("all", "A4-async").err;
  CHECK(all.find(": fiber: ") != std::string::npos);
  CHECK(all.find(": distributed: ") != std::string::npos);
  const ProgramResult wrong = run_with("fiber,ccx", "A4-async");
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, test::Says("KB-U013", "KERNBENCH_LOG", "'ccx'"));
}

}  // namespace
}  // namespace kernbench::test::log_test
