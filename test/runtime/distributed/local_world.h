// Ranks on the backend `local`, each with a device of one PE or, if asked for, of several.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/distributed/local_backend.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

struct LocalWorld {
  const int size;
  RuntimeContext torch;
  distributed::DistributedContext& dist = torch.distributed;

  explicit LocalWorld(int ranks)
      : size(ranks), torch(round_topology(SipTopology::ring_1d, ranks, 1)) {
    distributed::register_local_backend();
    dist.init_process_group("local");
  }

  // Each rank on the device of its number.
  void spawn(const std::function<void(int)>& body) { run_on_devices(torch, size, body); }

  Tensor zeros(const Shape& shape, DType dtype = DType::f32) {
    return torch.zeros(shape, {.dtype = dtype, .dp = DPPolicy::on_one_pe()});
  }
  Tensor tensor(std::vector<float> elements, DType dtype = DType::f32) {
    const Shape shape{static_cast<std::int64_t>(elements.size())};
    Tensor made = zeros(shape, dtype);
    made.copy_(RuntimeContext::tensor(elements, shape));
    return made;
  }

  // Returns the text with which the call of a rank is refused; "no error" if it is not.
  template <class Action>
  static std::string refusal(Action action) {
    return error_of<CollectiveError>(action);
  }
};

}  // namespace kernbench::test
