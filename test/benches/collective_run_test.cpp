// run_collective(): what it drives, what it counts as wrong, and what it cannot check.

#include "benches/collectives/collective_run.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"
#include "ccl/ahbm_backend.h"
#include "test/support/error_text.h"

namespace kernbench::test::collective_run_test {
namespace {

using benches::CollectiveRow;

// Round the ring as often as there are ranks, so that one's own values are added twice.
void once_too_often(tl::Context& tl, const ccl::KernelArgs& args) {
  const tl::Shape shape{args.n_elem};
  tl::Tensor travelling = tl.load(args.tensor, shape, args.dtype);
  tl::Tensor sum = travelling;
  for (int step = 0; step < args.world_size; ++step) {
    tl.send(args.ring().next, travelling);
    travelling = tl.recv(args.ring().previous, shape, args.dtype);
    sum = sum + travelling;
  }
  tl.store(args.tensor, sum);
}

KERNBENCH_REGISTER_ALGORITHM("test_once_too_often", once_too_often);

void keeps(tl::Context&, const ccl::KernelArgs&) {}

[[maybe_unused]] const bool kHasShift =
    ccl::register_algorithm({.name = "test_no_shift", .kernel = keeps, .collective = "shift"});
[[maybe_unused]] const bool kHasBroadcast =
    ccl::register_algorithm({.name = "test_broadcast", .kernel = keeps, .collective = "broadcast"});

CollectiveRow row_of(std::string_view algorithm, std::int64_t n_elem, std::string_view more = "") {
  ccl::register_ahbm_backend();
  const auto config =
      ccl::Config::parse(fmt::format("defaults: {{algorithm: {}{}}}", algorithm, more));
  const Topology topology = benches::load_topology("tiny");
  RuntimeContext torch(topology, {.ccl = config});
  return benches::run_collective(
      torch, config, {.n_elem = n_elem, .placement = benches::default_placement(config)});
}

TEST_CASE("sums that are not the sum are counted, element by element", "[collective_run]") {
  CHECK(row_of("ring_allreduce", 1000).wrong == 0);
  // Summands are -1, 0 and 1 and such: those other than 0 show.
  const CollectiveRow row = row_of("test_once_too_often", 1000);
  CHECK(row.collective == "all_reduce");
  CHECK(row.wrong > 500);
  CHECK(row.wrong <= 2 * 1000 + 1);  // on two ranks, which may differ
}

TEST_CASE("values that were not passed on are counted", "[collective_run]") {
  CHECK(row_of("hello_send", 1000).wrong == 0);
  for (const std::string_view more : {"", ", world_size: 2"}) {
    const CollectiveRow row = row_of("test_no_shift", 1000, more);
    CHECK(row.collective == "shift");
    CHECK(row.redop == "none");
    CHECK(row.wrong > 500);
    CHECK(row.wrong <= 2 * 1000);
  }
}

TEST_CASE("a collective that nobody can check is refused", "[collective_run][errors]") {
  CHECK(error_of<CollectiveError>([] { row_of("test_broadcast", 8); }) ==
        "[KB-C012] 'test_broadcast' is a broadcast, and this bench can check an all_reduce or a "
        "shift; write a bench of your own for it");
}

}  // namespace
}  // namespace kernbench::test::collective_run_test
