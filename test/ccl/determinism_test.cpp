// Equal runs are equal in every bit: twice, in two threads, with and without data, in every build.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "test/ccl/all_reduce_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::determinism_test {
namespace {

AllReduce usual(SipTopology kind) {
  return {.topology = round_topology(kind, 3, 2, 2, 2),
          .dp = {.cube = Shard::partial, .pe = Shard::column_wise},
          .shape = {5, 77},
          .dtype = DType::f16};
}

void check_equal_times(const AllReduceResult& a, const AllReduceResult& b) {
  CHECK(a.took == b.took);
  CHECK(a.now == b.now);
  CHECK(a.events == b.events);
  CHECK(a.fingerprint == b.fingerprint);
}

TEST_CASE("the same run twice has the same fingerprint, times and tensors", "[ccl][determinism]") {
  const SipTopology kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  const AllReduceResult first = run(usual(kind));
  const AllReduceResult second = run(usual(kind));
  check_equal_times(first, second);
  CHECK(first.elements == second.elements);
}

TEST_CASE("another size, type, depth or placement has another fingerprint", "[ccl][determinism]") {
  AllReduce base = usual(SipTopology::torus_2d);
  base.config = ccl::Config::parse("defaults: {algorithm: intercube_allreduce}");
  std::vector<AllReduce> others(4, base);
  others[0].shape = {5, 78};
  others[1].dtype = DType::bf16;
  others[2].config = ccl::Config::parse("defaults: {algorithm: intercube_allreduce, depth: 1}");
  others[3].dp.pe = Shard::row_wise;
  for (const AllReduce& other : others) {
    CHECK(run(other).fingerprint != run(base).fingerprint);
  }
}

TEST_CASE("two contexts in two threads at once run as each does alone", "[ccl][determinism]") {
  AllReduceResult results[2];
  const AllReduce runs[2] = {usual(SipTopology::ring_1d), usual(SipTopology::mesh_2d_no_wrap)};
  std::thread threads[2];
  for (int i = 0; i < 2; ++i) {
    threads[i] = std::thread([&, i] {
      for (int k = 0; k < 3; ++k) results[i] = run(runs[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 2; ++i) {
    const AllReduceResult alone = run(runs[i]);
    check_equal_times(results[i], alone);
    CHECK(results[i].elements == alone.elements);
    CHECK(wrong_sums(runs[i], results[i]) == "");
  }
}

TEST_CASE("a run without data has the times and the fingerprint of the run with data",
          "[ccl][determinism]") {
  const SipTopology kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  AllReduce all_reduce = usual(kind);
  const AllReduceResult with_data = run(all_reduce);
  all_reduce.data = false;
  check_equal_times(with_data, run(all_reduce));
}

// test/golden/all_reduce.txt

constexpr const char* kGoldenHead =
    "# Events, simulated time and fingerprint of one all_reduce (1 x 1000 f16, partial over "
    "cubes)\n"
    "# on the shipped topologies: the same in debug, release and under the sanitizers.\n"
    "# To write it anew after a change of the time model:\n"
    "#   KERNBENCH_WRITE_GOLDEN=1 build/release/test/ccl/golden_test\n";

std::string golden_line(const std::string& name) {
  const AllReduceResult result =
      run({.topology = Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name)),
           .dp = {.cube = Shard::partial, .pe = Shard::column_wise},
           .shape = {1, 1000},
           .dtype = DType::f16});
  return fmt::format("{}: {} events, {}, {:016x}\n", name, result.events, to_string(result.now),
                     result.fingerprint);
}

TEST_CASE("runs are those of the golden file, in every build", "[ccl][determinism][golden]") {
  const std::string path = KERNBENCH_ROOT "/test/golden/all_reduce.txt";
  std::string text = kGoldenHead;
  for (const char* name : {"ring_1d_6", "torus_2d_2x3", "mesh_2d_no_wrap_2x3"}) {
    text += golden_line(name);
  }
  if (std::getenv("KERNBENCH_WRITE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  CHECK(text == golden.str());
}

}  // namespace
}  // namespace kernbench::test::determinism_test
