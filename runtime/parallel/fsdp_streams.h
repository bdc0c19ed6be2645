// Streams and memory of fully_shard's collectives.

#pragma once

#include <memory>

#include "runtime/distributed/work.h"
#include "runtime/stream/stream.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::distributed::fsdp {

void free_elements(const Tensor& tensor);
ahbm::Stream current_stream(RuntimeContext& torch);
// Makes the current stream wait for a collective, and notes its times.  A Work keeps its tensors,
// so it is not kept for them.
void wait_for(RuntimeContext& torch, const Work& work, const std::shared_ptr<Work::Times>& times);

}  // namespace kernbench::distributed::fsdp
