// The sentences of `kernbench plan` about its plans.

#include <catch2/catch.hpp>
#include <vector>

#include "benches/plan/reasons.h"

namespace kernbench::test::plan_reasons_test {
namespace {

using namespace benches::plan;

Plan plan_of(int tp, const StepFigures& figures) {
  Plan plan;
  plan.input.world = 8;
  plan.input.tp = tp;
  plan.figures = figures;
  plan.is_measured = true;
  return plan;
}

TEST_CASE("what the second plan has more adds up to its step", "[plan]") {
  const auto first = plan_of(1, {.step_ns = 100e3,
                                 .computing_ns = 70e3,
                                 .exposed_ns = 25e3,
                                 .idle_ns = 5e3,
                                 .dp_exposed_ns = 25e3,
                                 .peak_bytes = 2 << 20});
  const auto second = plan_of(4, {.step_ns = 112.5e3,
                                  .computing_ns = 60e3,
                                  .exposed_ns = 47.5e3,
                                  .idle_ns = 5e3,
                                  .tp_exposed_ns = 40e3,
                                  .dp_exposed_ns = 10e3,
                                  .peak_bytes = 1 << 20});
  CHECK(compare_first_two(first, second) ==
        "the second, tp 4 x dp 2, ddp, cap 25, takes 12.5 us more than the first, 12.5 %: kernels "
        "10.0 us less, exposed communication 22.5 us more (dp: 15.0 us less, tp: 40.0 us more), "
        "idle as much; its peak has 1.0 MiB less");
  CHECK_THAT(compare_first_two(first, first),
             Catch::StartsWith("the second, tp 1 x dp 8, ddp, cap 25, takes as long as the first: "
                               "kernels as much, exposed communication as much, idle as much"));
  auto unfit = second;
  unfit.figures.step_ns = 90e3;
  unfit.refused = "needs 1.0 MiB more";
  const std::vector<Plan> plans = {first, unfit};
  auto pipeline = second;
  pipeline.input.tp = 1;
  pipeline.input.pp = 4;
  pipeline.figures.bubble_ns = 3e3;
  CHECK_THAT(
      compare_first_two(first, pipeline),
      Catch::StartsWith("the second, tp 1 x dp 2 x pp 4, ddp, cap 25, takes") &&
          Catch::EndsWith("idle as much; its bubble, the mean of all ranks, has 3.0 us more; "
                          "its peak has 1.0 MiB less"));
  CHECK(describe_refused({&first, 1}) == "all plans fit");
  auto needless = second;
  needless.needless = kIsSlower;
  const std::vector<Plan> timed = {first, needless};
  CHECK(describe_refused(timed) == "all plans that are timed fit");
  CHECK_THAT(describe_needless(timed),
             Catch::StartsWith("1 plan does not have to be timed (1: slower, "));
  CHECK(describe_refused(plans) ==
        "1 plan does not fit; tp 4 x dp 2, ddp, cap 25 would take 90.0 us: needs 1.0 MiB more");
}

}  // namespace
TEST_CASE("plans that take what they take by layers deviate by nothing", "[plan]") {
  Plan plan = plan_of(1, {.step_ns = 100e3});
  CHECK(describe_deviation({&plan, 1}).empty());
  plan.is_measured = true;
  plan.by_layers.step_ns = 100.04e3;
  CHECK(describe_deviation({&plan, 1}) ==
        "measured with all layers, steps take what they take by layers");
  plan.by_layers.step_ns = 80e3;
  CHECK(describe_deviation({&plan, 1}) ==
        "measured with all layers, steps take +25.0 to +25.0 % more than by layers");
}

}  // namespace kernbench::test::plan_reasons_test
