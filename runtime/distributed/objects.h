// torch.distributed's collectives of host objects.  An object may have any copyable type; it is
// not pickled, since all ranks are in one process.

#pragma once

#include <any>
#include <optional>
#include <vector>

#include "runtime/distributed/distributed.h"
#include "runtime/distributed/misuse.h"

namespace kernbench::distributed {

// For an object of another type than the caller expects.  Throws CollectiveMismatchError KB-C001.
[[noreturn]] void throw_other_type(std::string_view function);

template <class T>
const T& object_cast(const std::any& object, std::string_view function) {
  if (const T* value = std::any_cast<T>(&object)) return *value;
  throw_other_type(function);
}

template <class T>
void DistributedContext::all_gather_object(std::vector<T>& objects,
                                           const std::type_identity_t<T>& object,
                                           const ProcessGroup& group, Location location) {
  const auto call = begin("all_gather_object", group);
  if (!call) return;
  const Objects all = exchange("all_gather_object", *call, T(object), std::nullopt, location);
  objects.clear();
  for (const std::any& each : *all) objects.push_back(object_cast<T>(each, "all_gather_object"));
}

template <class T>
void DistributedContext::gather_object(const T& object, std::vector<T>* objects,
                                       const DestinationOptions& options, Location location) {
  const auto call = begin("gather_object", options.group);
  if (!call) return;
  const int root = root_or_first("gather_object", *call, options.dst, options.group_dst);
  if (call->rank == root && objects == nullptr) {
    wrong_argument("Argument ``object_gather_list`` must be specified on destination rank.");
  }
  if (call->rank != root && objects != nullptr) {
    wrong_argument(
        "Argument ``object_gather_list`` must NOT be specified on non-destination ranks.");
  }
  const Objects all = exchange("gather_object", *call, object, root, location);
  if (objects == nullptr) return;
  objects->clear();
  for (const std::any& each : *all) objects->push_back(object_cast<T>(each, "gather_object"));
}

template <class T>
void DistributedContext::broadcast_object_list(std::vector<T>& objects,
                                               const SourceOptions& options, Location location) {
  const auto call = begin("broadcast_object_list", options.group);
  if (!call) return;
  const int root = root_or_first("broadcast_object_list", *call, options.src, options.group_src);
  const Objects all = exchange("broadcast_object_list", *call,
                               call->rank == root ? objects : std::vector<T>{}, root, location);
  objects =
      object_cast<std::vector<T>>(all->at(static_cast<std::size_t>(root)), "broadcast_object_list");
}

template <class T>
void DistributedContext::scatter_object_list(std::vector<T>& output, const std::vector<T>* input,
                                             const SourceOptions& options, Location location) {
  const auto call = begin("scatter_object_list", options.group);
  if (!call) return;
  const int root = root_or_first("scatter_object_list", *call, options.src, options.group_src);
  if (call->rank == root &&
      (input == nullptr || static_cast<int>(input->size()) != size_of(*call))) {
    wrong_argument(
        "Expected argument scatter_object_input_list to be a list of one object for each rank.");
  }
  const Objects all = exchange("scatter_object_list", *call,
                               call->rank == root ? *input : std::vector<T>{}, root, location);
  const auto& given =
      object_cast<std::vector<T>>(all->at(static_cast<std::size_t>(root)), "scatter_object_list");
  output = {given[static_cast<std::size_t>(call->rank)]};
}

template <class T>
void DistributedContext::send_object_list(const std::vector<T>& objects, std::optional<int> dst,
                                          const SendOptions& options, Location location) {
  const Work work = post({"send_object_list", true, true, dst ? dst : options.dst,
                          options.group_dst, options.group, options.tag, location},
                         {}, std::make_shared<std::any>(objects));
  if (work) work.wait();
}

template <class T>
int DistributedContext::recv_object_list(std::vector<T>& objects, std::optional<int> src,
                                         const RecvOptions& options, Location location) {
  const auto received = std::make_shared<std::any>();
  const Work work = post({"recv_object_list", false, true, src ? src : options.src,
                          options.group_src, options.group, options.tag, location},
                         {}, received);
  if (!work) return -1;
  work.wait();
  objects = object_cast<std::vector<T>>(*received, "recv_object_list");
  return work.source_rank();
}

}  // namespace kernbench::distributed
