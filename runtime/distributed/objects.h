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
  const auto call = begin_objects("all_gather_object", group, std::nullopt, location);
  if (!call) return;
  const Objects all = exchange(*call, T(object));
  objects.clear();
  for (const std::any& each : *all) objects.push_back(object_cast<T>(each, "all_gather_object"));
}

template <class T>
void DistributedContext::gather_object(const T& object, std::vector<T>* objects,
                                       const DestinationOptions& options, Location location) {
  const auto call =
      begin_objects("gather_object", options.group,
                    Root{.global = options.dst, .in_group = options.group_dst}, location);
  if (!call) return;
  if (call->rank == call->root && objects == nullptr) {
    wrong_argument("Argument ``object_gather_list`` must be specified on destination rank.");
  }
  if (call->rank != call->root && objects != nullptr) {
    wrong_argument(
        "Argument ``object_gather_list`` must NOT be specified on non-destination ranks.");
  }
  const Objects all = exchange(*call, object);
  if (objects == nullptr) return;
  objects->clear();
  for (const std::any& each : *all) objects->push_back(object_cast<T>(each, "gather_object"));
}

template <class T>
void DistributedContext::broadcast_object_list(std::vector<T>& objects,
                                               const SourceOptions& options, Location location) {
  const auto call =
      begin_objects("broadcast_object_list", options.group,
                    Root{.global = options.src, .in_group = options.group_src}, location);
  if (!call) return;
  const Objects all = exchange(*call, call->rank == call->root ? objects : std::vector<T>{});
  objects = object_cast<std::vector<T>>(all->at(static_cast<std::size_t>(call->root)),
                                        "broadcast_object_list");
}

template <class T>
void DistributedContext::scatter_object_list(std::vector<T>& output, const std::vector<T>* input,
                                             const SourceOptions& options, Location location) {
  const auto call =
      begin_objects("scatter_object_list", options.group,
                    Root{.global = options.src, .in_group = options.group_src}, location);
  if (!call) return;
  const bool is_root = call->rank == call->root;
  if (is_root && (input == nullptr || static_cast<int>(input->size()) != call->size)) {
    wrong_argument(
        "Expected argument scatter_object_input_list to be a list of one object for each rank.");
  }
  const Objects all = exchange(*call, is_root ? *input : std::vector<T>{});
  const auto& given = object_cast<std::vector<T>>(all->at(static_cast<std::size_t>(call->root)),
                                                  "scatter_object_list");
  output = {given[static_cast<std::size_t>(call->rank)]};
}

template <class T>
void DistributedContext::send_object_list(const std::vector<T>& objects, std::optional<int> dst,
                                          const SendOptions& options, Location location) {
  const Work work = post_objects(std::make_shared<std::any>(objects), dst, options, location);
  if (work) work.wait();
}

template <class T>
int DistributedContext::recv_object_list(std::vector<T>& objects, std::optional<int> src,
                                         const RecvOptions& options, Location location) {
  const auto received = std::make_shared<std::any>();
  const Work work = await_objects(received, src, options, location);
  if (!work) return -1;
  work.wait();
  objects = object_cast<std::vector<T>>(*received, "recv_object_list");
  return work.source_rank();
}

}  // namespace kernbench::distributed
