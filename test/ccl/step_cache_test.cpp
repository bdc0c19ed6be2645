// Steps are made once for calls whose tensors lie alike.

#include "ccl/steps/step_cache.h"

#include <catch2/catch.hpp>

namespace kernbench::test::step_cache_test {
namespace {

// Counts how often steps are made for the node 0: so many of one lane.
class Steps {
 public:
  explicit Steps(std::size_t count) : count_(count) {}

  std::shared_ptr<const ccl::LaneSteps> get(const ccl::StepCache::Key& key) {
    return cache_.steps(0, key, [this] {
      ++made_;
      ccl::LaneSteps lanes;
      lanes[{}].steps.resize(count_);
      return lanes;
    });
  }
  int made() const { return made_; }

 private:
  ccl::StepCache cache_;
  const std::size_t count_;
  int made_ = 0;
};

ccl::StepCache::Key key_of(const std::shared_ptr<const ccl::Plan>& plan, int source) {
  return {plan, ccl::SliceOrder::interleaved, {ccl::ChunkPlace{.source = source}}};
}

const auto kPlan = std::make_shared<const ccl::Plan>(distributed::CollectiveKind::all_reduce, 0);

}  // namespace

TEST_CASE("steps are made once for equal places, and again for others", "[ccl][cost]") {
  Steps steps(4);
  const auto first = steps.get(key_of(kPlan, 0));
  CHECK(steps.get(key_of(kPlan, 0)) == first);
  CHECK(steps.made() == 1);
  CHECK(steps.get(key_of(kPlan, 1)) != first);
  const auto other = std::make_shared<const ccl::Plan>(*kPlan);
  CHECK(steps.get(key_of(other, 0)) != first);
  CHECK(steps.made() == 3);
  CHECK(steps.get(key_of(kPlan, 0)) == first);
  CHECK(steps.made() == 3);
}

TEST_CASE("of many steps the last ones are kept", "[ccl][cost]") {
  Steps steps(600);  // two of them are more than 1,024
  const auto first = steps.get(key_of(kPlan, 0));
  const auto second = steps.get(key_of(kPlan, 1));
  CHECK(first->begin()->second.steps.size() == 600);  // whoever has them keeps them
  CHECK(steps.get(key_of(kPlan, 1)) == second);
  CHECK(steps.made() == 2);
  CHECK(steps.get(key_of(kPlan, 0)) != first);
  CHECK(steps.made() == 3);
}

}  // namespace kernbench::test::step_cache_test
