#include "ccl/backend/ahbm_backend.h"

#include <utility>

#include "ccl/backend/ahbm_registration.h"
#include "runtime/distributed/backend.h"
#include "runtime/distributed/local_registration.h"
#include "runtime/guards/uncaught_errors.h"
#include "runtime/launch/queue_residue.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/error.h"

namespace kernbench::ccl {

// The first group is the default one, to which the queues of ccl.yaml belong.
std::unique_ptr<distributed::Communicator> AhbmBackend::connect(const std::vector<int>& ranks,
                                                                std::string_view description) {
  const bool is_default = !std::exchange(has_default_, true);
  return std::make_unique<GroupCommunicator>(torch_, launcher_, ranks, std::string(description),
                                             cuts_, starts_, is_default);
}

void AhbmBackend::close() {
  const auto residue = runtime::take_residue(
      simulation_of(torch_).machine(), runtime::QueueScope::all, std::nullopt, "the process group");
  if (residue) throw *residue;
}

bool register_ahbm_backend() {
  return distributed::register_backend(
      "ahbm",
      [](const distributed::BackendInputs& inputs) -> std::unique_ptr<distributed::Backend> {
        const auto* own = dynamic_cast<const Config*>(inputs.config);
        if (own == nullptr && inputs.config != nullptr) {
          throw CollectiveError("KB-R002", "backend 'ahbm': its settings are not a ccl::Config");
        }
        return std::make_unique<AhbmBackend>(inputs.torch, own == nullptr ? Config() : *own);
      });
}

bool prepare_program() {
  return register_ahbm_backend() && distributed::register_local_backend() &&
         runtime::report_uncaught_errors();
}

}  // namespace kernbench::ccl
