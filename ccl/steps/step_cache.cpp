#include "ccl/steps/step_cache.h"

#include <algorithm>
#include <utility>

namespace kernbench::ccl {

namespace {

// The most steps that a node keeps.  Its last list of steps is kept even if it is longer, because
// the same call mostly comes again.
constexpr std::size_t kMostSteps = 1024;

std::size_t count_steps(const LaneSteps& lanes) {
  std::size_t size = 0;
  for (const auto& [lane, list] : lanes) size += list.steps.size();
  return size;
}

}  // namespace

std::shared_ptr<const LaneSteps> StepCache::steps(int node, Key key,
                                                  const std::function<LaneSteps()>& make) {
  std::vector<Entry>& entries = of_nodes_[node];
  const auto known = std::ranges::find(entries, key, &Entry::key);
  if (known != entries.end()) {
    std::rotate(known, known + 1, entries.end());
    return entries.back().steps;
  }
  auto made = std::make_shared<const LaneSteps>(make());
  const std::size_t size = count_steps(*made);
  entries.push_back({std::move(key), std::move(made), size});
  std::size_t total = 0;
  const auto last_to_go =
      std::ranges::find_if(entries.rbegin(), entries.rend(), [&](const Entry& entry) {
        total += entry.size;
        return total > kMostSteps && &entry != &entries.back();
      });
  entries.erase(entries.begin(), last_to_go.base());
  return entries.back().steps;
}

}  // namespace kernbench::ccl
