// The collective that a rank is in, for reports, for as long as this object lives.

#pragma once

#include <string>
#include <vector>

#include "runtime/distributed/fingerprint.h"
#include "runtime/distributed/group.h"
#include "runtime/fiber/fiber_local.h"

namespace kernbench::distributed {

class InCollective final : public runtime::Activity {
 public:
  InCollective(runtime::FiberLocal& local, const CollectiveCall& call)
      : local_(local), call_(call) {
    local_.collective = this;
  }
  ~InCollective() { local_.collective = nullptr; }
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

  std::string describe() const override { return describe_in_group(call_); }
  std::vector<int> missing_ranks() const override {
    return call_.group->ledger.missing(call_.sequence());
  }

 private:
  runtime::FiberLocal& local_;
  const CollectiveCall& call_;
};

}  // namespace kernbench::distributed
