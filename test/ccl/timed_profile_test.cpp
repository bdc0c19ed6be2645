// Profiles of the parts of a run that a program times.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string_view>

#include "runtime/profiler/profile.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/runtime_context.h"
#include "test/ccl/ring_with_array.h"

namespace kernbench::test::timed_profile_test {
namespace {

const runtime::OperationRow& row_of(const runtime::Profile& profile, std::string_view name) {
  const auto row = std::ranges::find(profile.operations, name, &runtime::OperationRow::name);
  REQUIRE(row != profile.operations.end());
  return *row;
}

TEST_CASE("a profile of what is timed has nothing of what is not", "[ccl][profile][timed]") {
  RuntimeContext torch(ring_with_array(2), {.profile = true});
  const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  const auto multiply_timed = [&](const char* name, std::int64_t n) {
    const Time begin = torch.engine().now();
    torch.launch(name, multiply, x, n);
    torch.ahbm.synchronize();
    profiler::timed(torch, name, begin, torch.engine().now());
  };
  torch.launch("upload", multiply, x, std::int64_t{512});
  torch.ahbm.synchronize();
  multiply_timed("first", 64);
  torch.launch("between", multiply, x, std::int64_t{256});
  torch.ahbm.synchronize();
  multiply_timed("second", 128);

  const auto profile = runtime::make_profile(simulation_of(torch), runtime::ProfiledTime::timed);
  CHECK(profile.duration() == time_of_product(64) + time_of_product(128));
  REQUIRE(profile.operations.size() == 2);
  CHECK(row_of(profile, "first").total == time_of_product(64));
  CHECK(row_of(profile, "second").total == time_of_product(128));
  CHECK(row_of(profile, "first").slack == Time{0});
  CHECK(profile.ranks[0].compute_only == profile.duration());
  CHECK(profile.ranks[1].idle == profile.duration());
  CHECK(profile.path.of(sim::Cause::compute) == profile.duration());
  CHECK_THAT(runtime::explain(profile),
             Catch::Contains("the 2 timed parts of a run of ") && Catch::Contains("not timed: "));

  const auto whole = runtime::make_profile(simulation_of(torch));
  CHECK(whole.duration() == torch.engine().now());
  CHECK(whole.operations.size() == 4);
}

}  // namespace
}  // namespace kernbench::test::timed_profile_test
