// The backend `local`: computes the values of collectives and messages without a device and in no
// simulated time, to test what programs compute.
//
// A collective takes place when its last rank has called.  Reductions go in rank order, and each
// operation rounds once to the type.

#pragma once

#include "runtime/distributed/backend.h"
#include "runtime/distributed/local_registration.h"

namespace kernbench::distributed {

class LocalBackend : public Backend {
 public:
  explicit LocalBackend(runtime::Simulation& simulation) : simulation_(simulation) {}

  std::string_view name() const override { return "local"; }
  int world_size() const override;
  std::unique_ptr<Communicator> connect(const std::vector<int>& ranks,
                                        std::string_view description) override;

 private:
  runtime::Simulation& simulation_;
};

}  // namespace kernbench::distributed
