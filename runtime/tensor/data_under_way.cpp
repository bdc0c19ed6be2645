#include "runtime/tensor/data_under_way.h"

#include <fmt/format.h>

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

// "tensor 'x', which all_gather#0 ([4] Float) at ddp.cpp:41 still reads"
std::string in_use(const Tensor& tensor, const AccessUnderWay& access) {
  return fmt::format("tensor '{}', which {} {}", tensor.name(), access.operation->description,
                     access.writes ? "is to write" : "still reads");
}

void forget_known(std::vector<AccessUnderWay>& accesses) {
  std::erase_if(accesses, [](const AccessUnderWay& access) {
    return access.operation->is_known_to_be_done();
  });
}

}  // namespace

void check_may_touch(const Tensor& tensor, Touch touch, DescribeOperation what,
                     const Timeline* stream) {
  for (const AccessUnderWay& access : tensor.storage()->memory->accesses) {
    const bool is_hazard = access.writes || touch == Touch::writes;
    const bool follows = access.operation->stream.get() == stream;
    if (!is_hazard || follows || access.operation->is_known_to_be_done()) continue;
    throw CollectiveError("KB-G003", fmt::format("{} {} {}; wait for its Work first", what(),
                                                 verb_of(touch), in_use(tensor, access)));
  }
}

// A later operation of a stream that does as much stands for an earlier one: whoever knows that it
// is done knows it of both.  A tensor thus has at most two entries for each stream.
void begin_access(const Tensor& tensor, std::shared_ptr<const OperationUnderWay> operation,
                  bool writes) {
  std::vector<AccessUnderWay>& accesses = tensor.storage()->memory->accesses;
  forget_known(accesses);
  std::erase_if(accesses, [&](const AccessUnderWay& earlier) {
    return earlier.operation->stream == operation->stream && (writes || !earlier.writes);
  });
  accesses.push_back({std::move(operation), writes});
}

void know_all_done(Tensor::Storage& storage) {
  for (const AccessUnderWay& access : std::exchange(storage.memory->accesses, {})) {
    access.operation->stream->know(access.operation->number);
  }
}

tl::StoreGuard guard_of(const std::vector<Tensor>& uses, DescribeOperation advice) {
  tl::StoreGuard guard;
  for (const Tensor& tensor : uses) {
    for (const AccessUnderWay& access : tensor.storage()->memory->accesses) {
      if (access.operation->is_known_to_be_done()) continue;
      for (const sim::DeviceBuffer& buffer : tensor.storage()->buffers()) {
        guard.protect(buffer.region, fmt::format("{}; {}", in_use(tensor, access), advice()));
      }
    }
  }
  return guard;
}

}  // namespace kernbench::runtime
