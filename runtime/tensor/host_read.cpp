#include "runtime/tensor/host_read.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

std::string_view name_of(HostRead entry_point) {
  constexpr std::array<std::string_view, kHostReads.size()> kNames = {"to_vector",
                                                                      "shard_to_vector",
                                                                      "item",
                                                                      "at",
                                                                      "to_eigen",
                                                                      "format",
                                                                      "copy_ (its source)",
                                                                      "cross_entropy (its targets)",
                                                                      "an operator (its indices)"};
  return kNames.at(static_cast<std::size_t>(entry_point));
}

bool is_in_use(const Tensor::Storage& storage) {
  if (storage.memory->uses == 0) return false;
  return std::ranges::any_of(storage.memory->tensors, [&](const Tensor::Storage* tensor) {
    return tensor->uses > 0 && share_elements(*tensor, storage);
  });
}

// Another operation may use the tensor by the time this fiber runs again, so it looks again.
void wait_until_unused(Tensor::Storage& storage, DescribeWait what) {
  TensorMemory& memory = *storage.memory;
  while (is_in_use(storage)) {
    Completion unused(*storage.simulation);
    memory.readers.push_back({&unused, &storage});
    try {
      storage.simulation->wait(unused, what);
    } catch (...) {
      std::erase_if(memory.readers, [&](const auto& reader) { return reader.woken == &unused; });
      throw;
    }
  }
  throw_queued_failure(*storage.simulation);
}

void begin_host_read(Tensor::Storage& storage, HostRead entry_point) {
  if (storage.is_host()) return;
  // A kernel would wait for its own launch.
  check_outside_kernels(*storage.simulation, name_of(entry_point),
                        [&] { return describe_name(storage); });
  check_has_space(storage, name_of(entry_point));
  compute_deferred(*storage.memory);
  wait_until_unused(storage, [&] {
    return fmt::format("what tensor '{}' depends on, to read it by {}", storage.name,
                       name_of(entry_point));
  });
  know_all_done(storage);
}

}  // namespace kernbench::runtime
