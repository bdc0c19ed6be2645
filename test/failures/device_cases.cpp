// Memory that is used wrongly.

#include "test/failures/failure_case.h"

namespace kernbench::test {
namespace {

// A handle keeps its tensor, so what is freed is what nobody has a handle of.
void undefined() {
  LocalRanks world(2);
  world.spawn([&](int) {
    Tensor x = world.ones();
    x = Tensor();
    world.dist.all_reduce(x);
  });
}

void out_of_hbm() {
  Ranks world(1);
  world.ones({1 << 30});
}

void size_overflows() {
  Ranks world(1);
  world.ones({std::int64_t{1} << 32, std::int64_t{1} << 32});
}

void of_another_context() {
  LocalRanks world(2);
  LocalRanks other(2);
  const Tensor x = other.ones();
  world.spawn([&](int) { world.dist.all_reduce(x); });
}

}  // namespace

std::vector<FailureCase> device_cases() {
  return {{"B1-undefined", undefined},
          {"B7-hbm", out_of_hbm},
          {"B9-overflow", size_overflows},
          {"B10-another-context", of_another_context}};
}

}  // namespace kernbench::test
