#include "runtime/tensor/data_under_way.h"

#include <fmt/format.h>

#include <set>
#include <string_view>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

std::string_view verb_of(Touch touch) {
  switch (touch) {
    case Touch::reads:
      return "reads";
    case Touch::writes:
      return "writes";
    case Touch::uses:
      break;
  }
  return "uses";
}

// "which all_gather#0 ([4] Float) at ddp.cpp:41 still reads"
std::string describe_use(const AccessUnderWay& access) {
  return fmt::format("which {} {}", access.operation->description,
                     access.writes ? "is to write" : "still reads");
}

std::string in_use(const Tensor& tensor, const AccessUnderWay& access) {
  return fmt::format("tensor '{}', {}", tensor.name(), describe_use(access));
}

const std::vector<sim::DeviceBuffer>& buffers_of(const AccessUnderWay& access,
                                                 const TensorMemory& memory) {
  return access.part.empty() ? memory.buffers : access.part;
}

void forget_known(AccessesUnderWay& accesses, const sim::ElementRange& elements) {
  accesses.erase_if(elements, [](const AccessUnderWay& access, const sim::ElementRange&) {
    return access.operation->is_known_to_be_done();
  });
}

}  // namespace

void compute_deferred(const TensorMemory& memory) {
  // The computation resets the memory's own reference, so this one keeps the value alive.
  const std::shared_ptr<DeferredValue> value = memory.deferred;
  if (value != nullptr) value->compute();
}

void compute_before_write(const TensorMemory& memory) {
  compute_deferred(memory);
  // Deferred values that read this memory must be computed from its old elements.  The first write
  // of a deferred value is its own computation, which its readers wait for.
  while (!memory.is_first_write && !memory.deferred_readers.empty()) {
    memory.deferred_readers.front()->compute();
  }
}

void check_may_touch(const Tensor& tensor, Touch touch, DescribeOperation what,
                     const Timeline* stream) {
  const TensorMemory& memory = *tensor.storage()->memory;
  touch == Touch::writes ? compute_before_write(memory) : compute_deferred(memory);
  check_may_defer(tensor, touch, what, stream);
}

void check_may_defer(const Tensor& tensor, Touch touch, DescribeOperation what,
                     const Timeline* stream) {
  const Tensor::Storage& storage = *tensor.storage();
  const auto check = [&](const AccessUnderWay& access, const sim::ElementRange&) {
    const bool is_hazard = access.writes || touch == Touch::writes;
    const bool follows = access.operation->stream.get() == stream;
    if (!is_hazard || follows || access.operation->is_known_to_be_done()) return;
    throw CollectiveError("KB-G003", "{} {} {}; wait for its Work first", what(), verb_of(touch),
                          in_use(tensor, access));
  };
  storage.memory->accesses.visit_overlapping(storage.elements(), check);
}

// A later operation of the same stream that covers an earlier one's access replaces it: whoever
// knows that the later one is done knows it of both.  Elements therefore have at most two entries
// per stream.
void begin_access(const Tensor& tensor, std::shared_ptr<const OperationUnderWay> operation,
                  bool writes) {
  const Tensor::Storage& storage = *tensor.storage();
  const sim::ElementRange elements = storage.elements();
  AccessesUnderWay& accesses = storage.memory->accesses;
  forget_known(accesses, elements);
  const auto is_replaced = [&](const AccessUnderWay& earlier, const sim::ElementRange& its) {
    return earlier.operation->stream == operation->stream && (writes || !earlier.writes) &&
           elements.contains(its);
  };
  accesses.erase_if(elements, is_replaced);
  accesses.add(elements, {std::move(operation), writes, storage.part});
}

void know_all_done(Tensor::Storage& storage) {
  AccessesUnderWay& accesses = storage.memory->accesses;
  accesses.visit_overlapping(storage.elements(),
                             [](const AccessUnderWay& access, const sim::ElementRange&) {
                               access.operation->stream->know(access.operation->number);
                             });
  forget_known(accesses, storage.elements());
}

std::string TensorMemory::obstacle(sim::RegionId region, const sim::ElementRange& of_region,
                                   bool is_written) const {
  std::string text;
  accesses.visit_overlapping(elements(), [&](const AccessUnderWay& access, const auto&) {
    const bool is_hazard = access.writes || is_written;
    if (!is_hazard || access.operation->is_known_to_be_done() || !text.empty()) return;
    for (const sim::DeviceBuffer& buffer : buffers_of(access, *this)) {
      const bool meets =
          buffer.region == region && overlap({buffer.first, buffer.element_count}, of_region);
      if (meets) text = describe_use(access);
    }
  });
  return text;
}

// Guards the whole memory of each tensor, because a kernel that has a row may form a pointer that
// leads out of it.
tl::StoreGuard make_store_guard(const std::vector<Tensor>& uses, DescribeOperation advice) {
  tl::StoreGuard guard;
  std::set<const TensorMemory*> seen;  // never iterated
  for (const Tensor& tensor : uses) {
    const TensorMemory& memory = *tensor.storage()->memory;
    if (!seen.insert(&memory).second) continue;
    const auto protect = [&](const AccessUnderWay& access, const sim::ElementRange&) {
      if (access.operation->is_known_to_be_done()) return;
      guard.protect(buffers_of(access, memory),
                    fmt::format("{}; {}", in_use(tensor, access), advice()));
    };
    memory.accesses.visit_overlapping(memory.elements(), protect);
  }
  return guard;
}

}  // namespace kernbench::runtime
