// torch.distributed: process groups and collectives.

#pragma once

#include <any>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/distributed/options.h"
#include "runtime/distributed/p2p_op.h"
#include "runtime/distributed/process_group.h"
#include "runtime/distributed/work.h"

namespace kernbench {

class RuntimeContext;

namespace runtime {
class Simulation;
}
namespace multiprocessing {
class Multiprocessing;
class World;
}  // namespace multiprocessing

namespace distributed {

class BackendConfig;
struct CollectiveCall;

using Location = std::source_location;

// The member `torch.distributed` of a RuntimeContext.  Names and error texts are PyTorch's.  State
// is kept per context, and per rank where ranks may differ.
//
// Collectives block the calling rank, unless async_op is given; then they return a Work at once
// and overlap what the rank does next.  A rank's collectives of one group run one after the other.
// A rank that is no member of the group gets a warning, and the call does nothing.  With tensors
// on the device they throw
//   CollectiveMismatchError KB-C001  ranks called different things, found when the second arrives
//   DeadlockError           KB-C002  a rank has left and cannot call
//   DistBackendError        KB-C028  a rank has died, and the others know of it
//   CollectiveError         KB-C011  two ranks, one device
//                           KB-C020  wrong arguments, with PyTorch's text
//                           KB-G003  something under way uses one of the tensors (ADR-0151)
//                           KB-R002  there is no such group
//                           KB-R012  inside a kernel
// and DeviceError for tensors that are not on the device.
class DistributedContext : public Facilities {
 public:
  // `torch` is handed to the backend, and so are its `settings`.
  DistributedContext(RuntimeContext& torch, std::shared_ptr<runtime::Simulation> simulation,
                     std::shared_ptr<const BackendConfig> settings, Reproducible least);
  ~DistributedContext();
  DistributedContext(const DistributedContext&) = delete;
  DistributedContext& operator=(const DistributedContext&) = delete;

  // Life cycle

  // Makes the default group: of all SIPs, or of the first InitOptions::world_size.  It is called
  // once before spawn(), or once by every rank.
  // Throws CollectiveError KB-R002 if it is called twice, if the backend is unknown, or if the
  // world size or the rank is wrong.
  void init_process_group(std::string_view backend = "ahbm", const InitOptions& options = {});
  void init_process_group(const InitOptions& options) { init_process_group("ahbm", options); }

  // Destroys a group; for the default group, all groups.  Throws CollectiveError KB-R002 if there
  // is none.  The last rank to leave gets DeviceError KB-Q003 if the user's kernels have left
  // messages in queues.
  void destroy_process_group(const ProcessGroup& group = {});

  // True if the caller has a default group: one that was made for all ranks, or by this rank
  // itself.
  bool is_initialized() const;
  static bool is_backend_available(std::string_view backend);
  Reproducible least_reproducible() const;  // RuntimeOptions::reproducible

  // Identity
  // The caller's rank in the group, -1 if it is no member.  Code outside of ranks is rank 0 (a
  // single driver), and gets a warning if KERNBENCH_DEBUG is set.  These functions throw
  // CollectiveError KB-R002 for a group that has been destroyed.
  int get_rank(const ProcessGroup& group = {}) const;
  ProcessGroup _get_default_group() const;  // a handle whose rank(), size(), ... work
  int get_world_size(const ProcessGroup& group = {}) const;  // -1 if the caller is no member
  std::string get_backend(const ProcessGroup& group = {}) const;
  int get_group_rank(const ProcessGroup& group, int global_rank) const;
  int get_global_rank(const ProcessGroup& group, int group_rank) const;
  std::vector<int> get_process_group_ranks(const ProcessGroup& group = {}) const;
  int get_pg_count() const;  // groups that the caller is a member of
  int get_node_local_rank() const { return get_rank(); }

  // Groups: collective over the world, in the same order on all ranks, unless
  // use_local_synchronization.  Outside of spawn() a group is made for all ranks at once.

  // Makes a group of all ranks.
  ProcessGroup new_group(Location location = Location::current());
  ProcessGroup new_group(std::span<const int> ranks, const NewGroupOptions& options = {},
                         Location location = Location::current());
  ProcessGroup new_group(std::initializer_list<int> ranks, const NewGroupOptions& options = {},
                         Location location = Location::current());
  // Makes consecutive groups of `group_size` ranks; returns the caller's group, and all of them.
  std::pair<ProcessGroup, std::vector<ProcessGroup>> new_subgroups(
      int group_size, Location location = Location::current());
  std::pair<ProcessGroup, std::vector<ProcessGroup>> new_subgroups_by_enumeration(
      const std::vector<std::vector<int>>& ranks_per_subgroup,
      Location location = Location::current());

  // Makes groups of ranks of the parent, given by their ranks in it; they must not overlap. Returns
  // the caller's; NON_GROUP_MEMBER if it is in none.  Only members meet.
  ProcessGroup split_group(const ProcessGroup& parent,
                           const std::vector<std::vector<int>>& split_ranks,
                           Location location = Location::current());

  // Makes a group without some ranks of another one, which it destroys, as in torch 2.9.  All ranks
  // that are left call it.  In place of the default group it makes the next one, whose ranks count
  // anew from 0, and destroys all others.  Throws CollectiveError KB-C020 for wrong ranks, KB-R002
  // for a caller that is excluded or outside of spawn(), DistBackendError KB-C028 if another dies.
  ProcessGroup shrink_group(std::span<const int> ranks_to_exclude,
                            const ShrinkOptions& options = {},
                            Location location = Location::current());
  ProcessGroup shrink_group(std::initializer_list<int> ranks_to_exclude,
                            const ShrinkOptions& options = {},
                            Location location = Location::current());

  // Arranges the first ranks, as many as the product of the shape, as a grid with a group along
  // each dimension.  A size of -1 is what the others leave of the world.
  DeviceMesh init_device_mesh(std::string_view device_type, const std::vector<int>& mesh_shape,
                              const std::vector<std::string>& mesh_dim_names = {},
                              Location location = Location::current());

  // Collectives.  Options come last; arguments before them that have a default may be left out.
  // x becomes the elementwise reduction of the logical tensor over ranks, in place, with the same
  // bits on all ranks.  A partial placement becomes replicated.
  Work all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum,
                  const CollectiveOptions& options = {}, Location location = Location::current());
  Work all_reduce(const Tensor& x, const ReductionOptions& options,
                  Location location = Location::current());
  // Reduces the tensors one after the other; the Work is done when all are.
  Work all_reduce_coalesced(const std::vector<Tensor>& tensors, const ReductionOptions& options,
                            Location location = Location::current());
  Work all_reduce_coalesced(const std::vector<Tensor>& tensors, ReduceOp op = ReduceOp::sum,
                            const CollectiveOptions& options = {},
                            Location location = Location::current());
  Work broadcast(const Tensor& x, int src, const CollectiveOptions& options = {},
                 Location location = Location::current());
  Work broadcast(const Tensor& x, const SourceOptions& options,
                 Location location = Location::current());
  // The result is written to x on dst; x of the other ranks stays as it is.
  Work reduce(const Tensor& x, int dst, ReduceOp op = ReduceOp::sum,
              const CollectiveOptions& options = {}, Location location = Location::current());
  Work reduce(const Tensor& x, int dst, const ReductionOptions& options,
              Location location = Location::current());
  Work reduce(const Tensor& x, const DestinationOptions& options, ReduceOp op = ReduceOp::sum,
              Location location = Location::current());

  // outputs[r] becomes rank r's x.
  Work all_gather(const std::vector<Tensor>& outputs, const Tensor& x,
                  const CollectiveOptions& options = {}, Location location = Location::current());
  // lists[r][i] becomes rank r's inputs[i].
  Work all_gather_coalesced(const std::vector<std::vector<Tensor>>& lists,
                            const std::vector<Tensor>& inputs,
                            const CollectiveOptions& options = {},
                            Location location = Location::current());
  // output becomes the concatenation of the inputs: [world * n, ...] or [world, n, ...].
  Work all_gather_into_tensor(const Tensor& output, const Tensor& input,
                              const CollectiveOptions& options = {},
                              Location location = Location::current());
  Work _all_gather_base(const Tensor& output, const Tensor& input,
                        const CollectiveOptions& options = {},
                        Location location = Location::current()) {
    return all_gather_into_tensor(output, input, options, location);
  }
  // output becomes the reduction over ranks r of rank r's inputs[this rank].
  Work reduce_scatter(const Tensor& output, const std::vector<Tensor>& inputs,
                      ReduceOp op = ReduceOp::sum, const CollectiveOptions& options = {},
                      Location location = Location::current());
  Work reduce_scatter(const Tensor& output, const std::vector<Tensor>& inputs,
                      const ReductionOptions& options, Location location = Location::current());
  Work reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op = ReduceOp::sum,
                             const CollectiveOptions& options = {},
                             Location location = Location::current());
  Work reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                             const ReductionOptions& options,
                             Location location = Location::current());
  Work _reduce_scatter_base(const Tensor& output, const Tensor& input,
                            const ReductionOptions& options = {},
                            Location location = Location::current()) {
    return reduce_scatter_tensor(output, input, options, location);
  }
  // outputs[s] becomes rank s's inputs[this rank].
  Work all_to_all(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                  const CollectiveOptions& options = {}, Location location = Location::current());
  // Split sizes count along the first dimension; without them all parts are equal.
  Work all_to_all_single(const Tensor& output, const Tensor& input,
                         std::span<const std::int64_t> output_split_sizes,
                         std::span<const std::int64_t> input_split_sizes = {},
                         const CollectiveOptions& options = {},
                         Location location = Location::current());
  Work all_to_all_single(const Tensor& output, const Tensor& input,
                         std::initializer_list<std::int64_t> output_split_sizes,
                         std::initializer_list<std::int64_t> input_split_sizes = {},
                         const CollectiveOptions& options = {},
                         Location location = Location::current());
  Work all_to_all_single(const Tensor& output, const Tensor& input,
                         const CollectiveOptions& options = {},
                         Location location = Location::current());
  // Only dst passes gather_list, only src scatter_list.  By default both are the global rank 0.
  Work gather(const Tensor& x, std::span<const Tensor> gather_list,
              const DestinationOptions& options = {}, Location location = Location::current());
  Work gather(const Tensor& x, std::initializer_list<Tensor> gather_list,
              const DestinationOptions& options = {}, Location location = Location::current());
  Work gather(const Tensor& x, const DestinationOptions& options = {},
              Location location = Location::current());
  Work scatter(const Tensor& x, std::span<const Tensor> scatter_list,
               const SourceOptions& options = {}, Location location = Location::current());
  Work scatter(const Tensor& x, std::initializer_list<Tensor> scatter_list,
               const SourceOptions& options = {}, Location location = Location::current());
  Work scatter(const Tensor& x, const SourceOptions& options = {},
               Location location = Location::current());

  // Returns when every rank has called it.
  Work barrier(const CollectiveOptions& options = {}, Location location = Location::current());
  // A barrier that names the ranks that do not come: DeadlockError KB-C021.
  void monitored_barrier(const MonitoredBarrierOptions& options = {},
                         Location location = Location::current());

  // Messages.  They are unbuffered: send() and recv() return when both sides have called and the
  // elements have arrived.  They match by sender, receiver and tag, the earliest first.  An isend
  // carries the values that its tensor holds at the call, and so do the sends of a batch: later
  // writes to the tensors do not change what arrives.
  void send(const Tensor& x, int dst, const SendOptions& options = {},
            Location location = Location::current());
  void send(const Tensor& x, const SendOptions& options, Location location = Location::current());
  // Returns the sender's global rank.  A shorter message fills the first elements of x.
  int recv(const Tensor& x, std::optional<int> src = std::nullopt, const RecvOptions& options = {},
           Location location = Location::current());
  int recv(const Tensor& x, const RecvOptions& options, Location location = Location::current());
  Work isend(const Tensor& x, int dst, const SendOptions& options = {},
             Location location = Location::current());
  Work isend(const Tensor& x, const SendOptions& options, Location location = Location::current());
  Work irecv(const Tensor& x, std::optional<int> src = std::nullopt,
             const RecvOptions& options = {}, Location location = Location::current());
  Work irecv(const Tensor& x, const RecvOptions& options, Location location = Location::current());
  std::vector<Work> batch_isend_irecv(const std::vector<P2POp>& ops,
                                      Location location = Location::current());

  // Objects: values of any copyable type, which take no simulated time.
  // objects[r] becomes rank r's object.
  template <class T>
  void all_gather_object(std::vector<T>& objects, const std::type_identity_t<T>& object,
                         const ProcessGroup& group = {}, Location location = Location::current());
  // dst and src default to the global rank 0.  `objects` is given on dst alone, and becomes the
  // objects of all ranks.
  template <class T>
  void gather_object(const T& object, std::vector<T>* objects = nullptr,
                     const DestinationOptions& options = {},
                     Location location = Location::current());
  template <class T>
  void broadcast_object_list(std::vector<T>& objects, const SourceOptions& options = {},
                             Location location = Location::current());
  // Only src gives `input`, which has an object for each rank.
  template <class T>
  void scatter_object_list(std::vector<T>& output, const std::vector<T>* input = nullptr,
                           const SourceOptions& options = {},
                           Location location = Location::current());
  // Object messages match each other, never a send or recv of tensors; both calls return when both
  // sides have called.  recv_object_list() returns the sender's global rank.
  template <class T>
  void send_object_list(const std::vector<T>& objects, std::optional<int> dst,
                        const SendOptions& options = {}, Location location = Location::current());
  template <class T>
  int recv_object_list(std::vector<T>& objects, std::optional<int> src = std::nullopt,
                       const RecvOptions& options = {}, Location location = Location::current());

 private:
  friend class multiprocessing::Multiprocessing;
  friend class multiprocessing::World;
  struct State;  // distributed_state.h

  // A rank's call of an object collective.  The templates at the end use it, and the functions
  // below.
  struct ObjectCall {
    std::shared_ptr<CollectiveCall> call;  // null: none
    int rank = 0;                          // the caller's in the group
    int root = 0;                          // group rank
    int size = 0;                          // of the group
  };
  struct Root {
    std::optional<int> global;  // the global rank 0 if neither is given
    std::optional<int> in_group;
  };
  // Return one without a call if the caller is no member.
  ObjectCall begin_objects(std::string_view function, const ProcessGroup& group, const Root& root,
                           Location location) const;
  ObjectCall begin_objects(std::string_view function, const ProcessGroup& group,
                           Location location) const;
  // Returns every member's object, by group rank, once all have called; members share one list.
  using Objects = std::shared_ptr<const std::vector<std::any>>;
  Objects exchange(const ObjectCall& call, std::any own);
  // Throw CollectiveError KB-C020, in torch's words.
  static void check_gather_list(const ObjectCall& call, bool is_given);
  static void check_scatter_list(const ObjectCall& call, std::size_t count);
  Work post_objects(std::shared_ptr<std::any> sent, const std::optional<int>& dst,
                    const SendOptions& options, Location location);
  Work await_objects(std::shared_ptr<std::any> received, const std::optional<int>& src,
                     const RecvOptions& options, Location location);

  const std::unique_ptr<State> state_;
};

// Objects.  They may have any copyable type; none is pickled, since all ranks are in one process.

// Throws CollectiveMismatchError KB-C001, for an object of another type than the caller expects.
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
  const auto call = begin_objects("all_gather_object", group, location);
  if (!call.call) return;
  const Objects all = exchange(call, T(object));
  objects.clear();
  for (const std::any& each : *all) objects.push_back(object_cast<T>(each, "all_gather_object"));
}

template <class T>
void DistributedContext::gather_object(const T& object, std::vector<T>* objects,
                                       const DestinationOptions& options, Location location) {
  const auto call =
      begin_objects("gather_object", options.group,
                    Root{.global = options.dst, .in_group = options.group_dst}, location);
  if (!call.call) return;
  check_gather_list(call, objects != nullptr);
  const Objects all = exchange(call, object);
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
  if (!call.call) return;
  const Objects all = exchange(call, call.rank == call.root ? objects : std::vector<T>{});
  objects = object_cast<std::vector<T>>(all->at(static_cast<std::size_t>(call.root)),
                                        "broadcast_object_list");
}

template <class T>
void DistributedContext::scatter_object_list(std::vector<T>& output, const std::vector<T>* input,
                                             const SourceOptions& options, Location location) {
  const auto call =
      begin_objects("scatter_object_list", options.group,
                    Root{.global = options.src, .in_group = options.group_src}, location);
  if (!call.call) return;
  const bool is_root = call.rank == call.root;
  if (is_root) check_scatter_list(call, input == nullptr ? 0 : input->size());
  const Objects all = exchange(call, is_root ? *input : std::vector<T>{});
  const auto& given = object_cast<std::vector<T>>(all->at(static_cast<std::size_t>(call.root)),
                                                  "scatter_object_list");
  output = {given[static_cast<std::size_t>(call.rank)]};
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

}  // namespace distributed
}  // namespace kernbench
