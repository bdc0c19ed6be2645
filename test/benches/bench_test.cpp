#include "benches/bench/bench.h"

#include <catch2/catch.hpp>

#include "benches/bench/report.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "test/benches/bench_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::benches::bench_test {

using test::BenchUnderTest;

TEST_CASE("a sentinel is work", "[bench]") {
  BenchUnderTest test(1);
  CHECK_THROWS_AS(test.run.check_contract("b"), Error);
  test.bench.submit_sentinel();
  CHECK_NOTHROW(test.run.check_contract("b"));
  CHECK(test.run.statistics().events > 0);
}

TEST_CASE("a bench's own folder stands back behind --out", "[bench]") {
  BenchRequest request = BenchUnderTest::request_of(1);
  BenchUnderTest without(request);
  CHECK(without.run.output_folder.empty());
  CHECK(without.bench.output_folder("own") == "own");
  CHECK(without.run.output_folder == "own");
  request.output_folder = "given";
  BenchUnderTest with(request);
  CHECK(with.bench.output_folder("own") == "given");
  CHECK(with.run.output_folder == "given");
}

TEST_CASE("artifacts have names of their own", "[bench][errors]") {
  BenchUnderTest test(1);
  test.bench.add_artifact("dropped", "");
  CHECK(test.run.artifacts().empty());
  test.bench.output_folder("own");
  test.bench.add_artifact("a", "");
  CHECK_THROWS_AS(test.bench.add_artifact("a", ""), InternalError);
}

TEST_CASE("an interrupted bench stops at its next row or artifact, which is kept",
          "[bench][errors]") {
  BenchUnderTest test(1);
  test.bench.output_folder("own");
  test.run.interrupt();
  CHECK_THROWS_MATCHES(test.bench.add_row(Row().set("a", 1)), Error,
                       test::Says("KB-S001", "interrupted", "1"));
  CHECK_THROWS_AS(test.bench.add_artifact("a", ""), Error);
  CHECK_THROWS_AS(test.bench.make_context(), Error);
  CHECK(test.run.rows().size() == 1);
  CHECK(test.run.artifacts().size() == 1);
}

TEST_CASE("the hash of the inputs tells seeds, settings, files and topologies apart", "[bench]") {
  const BenchRequest request = BenchUnderTest::request_of(1);
  const auto hash = [&](auto change) {
    BenchRequest changed = request;
    change(changed);
    return BenchUnderTest(changed).run.inputs_hash();
  };
  const std::uint64_t own = hash([](BenchRequest&) {});
  CHECK(hash([](BenchRequest& r) { r.jobs = 7; }) == own);
  CHECK(hash([](BenchRequest& r) { r.output_folder = "elsewhere"; }) == own);
  CHECK(hash([](BenchRequest& r) { r.seed = 7; }) != own);
  CHECK(hash([](BenchRequest& r) { r.inputs = "topology"; }) != own);
  CHECK(hash([](BenchRequest& r) { r.topology.name = "other"; }) != own);

  const std::vector<SettingInfo> known = {{"n", "1", ""}};
  Console console(STDERR_FILENO);
  const BenchRun fallback(request, Settings(known), console);
  const BenchRun given(request, Settings(known, std::vector<std::string>{"n=2"}), console);
  const BenchRun same(request, Settings(known, std::vector<std::string>{"n=1"}), console);
  CHECK(given.inputs_hash() != fallback.inputs_hash());
  CHECK(same.inputs_hash() == fallback.inputs_hash());
}

}  // namespace kernbench::benches::bench_test
