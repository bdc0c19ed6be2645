// The works of a rank.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/distributed/work.h"
#include "runtime/tensor/data_under_way.h"

namespace kernbench::distributed {

// A rank's works that its rank does not know to be done, or that have failed without being waited
// for; in the order of their issue.
class WorkList {
 public:
  WorkList();

  // The timeline of all that the rank has issued.
  const std::shared_ptr<runtime::Timeline>& timeline() const { return timeline_; }
  void add(std::shared_ptr<Work::State> work);
  std::shared_ptr<Work::State> take_last();  // null: there is none
  // With some that are settled.
  const std::vector<std::shared_ptr<Work::State>>& all() const { return works_; }

 private:
  void forget_what_is_settled();

  std::shared_ptr<runtime::Timeline> timeline_;
  std::vector<std::shared_ptr<Work::State>> works_;
  std::size_t forget_at_ = 0;  // of this size: so that each is looked at a few times only
};

}  // namespace kernbench::distributed
