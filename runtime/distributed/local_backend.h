// The backend `local`: the values of collectives and messages without a device, in no simulated
// time, for tests of what programs compute.
//
// A collective takes place when its last rank has called, and reductions go in the order of ranks,
// one rounding to the type for each operation.

#pragma once

#include "runtime/distributed/backend.h"

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

// Makes init_process_group("local") work.  The umbrella header calls it.
bool register_local_backend();

}  // namespace kernbench::distributed
