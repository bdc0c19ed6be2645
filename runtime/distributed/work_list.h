// The works that a rank has issued.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/distributed/work.h"
#include "runtime/tensor/data_under_way.h"

namespace kernbench::distributed {

// A rank's works, in the order of issue, that the rank does not know to be done, or that failed
// and were not waited for.
class WorkList {
 public:
  WorkList();

  // The timeline of all operations that the rank has issued.
  const std::shared_ptr<runtime::Timeline>& timeline() const { return timeline_; }
  void add(std::shared_ptr<Work::State> work);
  std::shared_ptr<Work::State> take_last();  // null: there is none
  // May contain works that are settled already.
  const std::vector<std::shared_ptr<Work::State>>& all() const { return works_; }

 private:
  void forget_what_is_settled();

  std::shared_ptr<runtime::Timeline> timeline_;
  std::vector<std::shared_ptr<Work::State>> works_;
  std::size_t forget_at_ = 0;  // size at which settled works are erased
};

}  // namespace kernbench::distributed
