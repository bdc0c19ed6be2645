// The backend `local`: the values of collectives and messages without a device, in no simulated
// time, for tests of what programs compute.
//
// A collective takes place when its last rank has called, and reductions go in the order of ranks,
// one rounding to the type for each operation.

#pragma once

#include "runtime/distributed/backend.h"
#include "runtime/distributed/local_registration.h"

namespace kernbench::distributed {

class LocalBackend : public Backend {
 public:
  explicit LocalBackend(RuntimeContext& torch) : torch_(torch) {}

  std::string_view name() const override { return "local"; }
  int world_size() const override;
  std::unique_ptr<Communicator> connect(const std::vector<int>& ranks) override;

 private:
  RuntimeContext& torch_;
};

}  // namespace kernbench::distributed
