#include "runtime/parallel/fsdp_streams.h"

#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::distributed::fsdp {

void free_elements(const Tensor& tensor) {
  runtime::TensorMemory& memory = *tensor.storage()->memory;
  runtime::compute_before_write(memory);  // what kb::compile has deferred still reads them
  runtime::free_space(memory);
}

ahbm::Stream current_stream(RuntimeContext& torch) {
  return torch.ahbm.current_stream();
}

void wait_for(RuntimeContext& torch, const Work& work, const std::shared_ptr<Work::Times>& times) {
  work.wait();
  const auto look = [work, times] { *times = work.times(); };
  runtime::Simulation& simulation = simulation_of(torch);
  if (!simulation.queues_launches()) return look();
  runtime::current_stream(simulation, torch.ahbm.current_device())
      .enqueue("a collective's times", look);
}

}  // namespace kernbench::distributed::fsdp
