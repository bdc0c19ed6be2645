// The state behind torch.distributed: the groups, the ranks that have made and left them, and the
// ranks' operations under way.

#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/distributed/backend.h"
#include "runtime/distributed/call_record.h"
#include "runtime/distributed/distributed.h"
#include "runtime/distributed/group.h"
#include "runtime/distributed/mailbox.h"
#include "runtime/distributed/work_state.h"
#include "runtime/fiber/function_ref.h"
#include "runtime/simulation/rendezvous.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::distributed {

struct DistributedContext::State {
  State(DistributedContext& its_context, RuntimeContext& its_torch,
        std::shared_ptr<runtime::Simulation> its_simulation,
        std::shared_ptr<const BackendConfig> its_settings, Reproducible least)
      : context(its_context),
        torch(its_torch),
        simulation(std::move(its_simulation)),
        settings(std::move(its_settings)),
        least_reproducible(least) {}

  runtime::FiberLocal& local() const { return simulation->local(); }
  bool is_rank() const { return local().kind == runtime::FiberLocal::Kind::rank; }

  // The life of the default group (life_cycle.cpp)

  void init(std::string_view name, const InitOptions& options);
  void destroy(const ProcessGroup& group);
  bool is_initialized() const;
  Backend& default_backend() const;
  void check_store(const InitOptions& options) const;
  void check_init(const Backend& on, const InitOptions& options) const;
  void check_world_size(const Backend& on, int world_size) const;
  int world_size_on(const Backend& on) const;  // of the default group, made or to be made
  void destroy_own_groups();
  void leave_default_group(std::optional<int> rank);  // nullopt: of all
  void note_absent_ranks(Group& group) const;
  void begin_anew();
  enum class Forget : std::uint8_t { of_ranks, all };
  void forget_groups(Forget which);

  // Multiprocessing reports: `nprocs` ranks are about to start; the rank on this fiber has nothing
  // left to call; a rank has returned; the run was abandoned.
  void ranks_start(int nprocs);
  void rank_ends();
  void rank_returned(int rank);
  void run_abandoned();

  // Ranks that die (shrink.cpp)

  // The others have learnt that a rank has died: what they have called, and will call, in its
  // groups throws DistBackendError KB-C028.
  void rank_lost(int rank);
  // All ranks have returned or are lost.
  void ranks_ended();
  void fail_if_lost(Group& group);
  // The group's members get the exception for each operation that not all of them have called, and
  // for each later call.  An operation that all have called runs to its end.
  void fail(Group& group, const std::exception_ptr& why);
  // The caller takes what operations of the group, or of all if it is the default one, fail with.
  void see_failures(const Group& parent);
  void abort(Group& parent, std::vector<int> excluded);  // by their ranks in it
  ProcessGroup shrink(const std::shared_ptr<Group>& parent, const std::vector<int>& left,
                      Location location);
  void become_world(const std::shared_ptr<Group>& group);

  // Groups (groups.cpp)

  // Returns the number with which the rank was spawned that has this one in the default group.
  int spawned_rank(int global) const {
    return whole_world == nullptr ? global : world->ranks.at(static_cast<std::size_t>(global));
  }

  bool is_registered(const ProcessGroup& group) const;
  Group* find(const ProcessGroup& group) const;  // nullptr: the caller is no member
  Group& registered(const ProcessGroup& group) const;
  Group* member_group(const ProcessGroup& group) const;
  std::shared_ptr<Group> make_group(std::vector<int> ranks, std::string_view description);
  const std::shared_ptr<Group>& register_group(std::vector<int> ranks,
                                               std::string_view description);
  void forget_if_destroyed(const std::shared_ptr<Group>& group);
  ProcessGroup handle_for_caller(const std::shared_ptr<Group>& group) const;
  std::vector<int> checked_ranks(std::span<const int> given, const NewGroupOptions& options) const;
  ProcessGroup new_local_group(std::vector<int> ranks, const NewGroupOptions& options);
  ProcessGroup new_group_of_all(std::vector<int> ranks, const NewGroupOptions& options,
                                Location location);
  // Groups that ranks are making: those of new_group(), and those of the same ranks by their
  // number (use_local_synchronization).
  using NewGroupKey = std::pair<std::vector<int>, std::uint64_t>;
  int count_stood_for(const std::vector<int>& ranks) const;
  // Throws CollectiveMismatchError KB-C026 if the groups that followers of the group's members
  // have, as these stand for them, have not been made.
  void check_followers_have_groups(Group& group) const;
  std::shared_ptr<Group> shared_group(const NewGroupKey& key, int callers, std::vector<int> ranks,
                                      std::string_view description);
  // Connects the group when it first runs something, since most of many groups run nothing.
  std::shared_ptr<Communicator> ensure_communicator(Group& group) const;

  // Checks of arguments (collectives.cpp)

  std::string backend_class() const;  // "ProcessGroupAhbm"
  // The ranks of a group, of which there may be one caller (Backend::has_single_driver()).
  int member_count(const Group& group) const;
  void check_tensor(std::string_view function, const Tensor& x) const;
  void check_tensors(const CollectiveCall& call, const std::vector<Tensor>& tensors) const;
  void check_list(std::string_view function, std::string_view list,
                  const std::vector<Tensor>& tensors, int expected) const;
  // Returns the group rank of a root or a peer that is given as a global rank or as a rank in the
  // group.
  int to_group_rank(std::string_view function, const Group& group, const std::optional<int>& global,
                    const std::optional<int>& in_group) const;
  void set_root(CollectiveCall& call, const std::optional<int>& global,
                const std::optional<int>& in_group) const;
  // Acts as set_root(), with the global rank 0 if neither rank is given.
  void set_root_or_first(CollectiveCall& call, const std::optional<int>& global,
                         const std::optional<int>& in_group) const;
  void set_reduce_op(CollectiveCall& call, ReduceOp op, DType dtype) const;

  // Collectives (issue.cpp)

  Group* group_of_caller(std::string_view function, const ProcessGroup& group) const;
  // Returns the call without its tensors; nullopt if the caller is no member.
  std::optional<CollectiveCall> begin(std::string_view function, CollectiveKind kind,
                                      const CollectiveOptions& options, Location location) const;
  void note_tensor(CollectiveCall& call) const;
  CallRecord arrive(CollectiveCall& call);
  // Throws DistBackendError KB-C028 if the group can run nothing; ends a run that calls for ever.
  void refuse_if_failed(Group& group) const;
  Work issue(CollectiveCall call);
  struct Issued;
  bool is_queued(const CollectiveCall& call) const;
  void wait_for_stream(const CollectiveCall& call) const;
  void run(const Issued& issued) const;
  void run_in_turn(const Issued& issued) const;
  // A rank that dies while it waits in a collective stops when that has ended or failed.
  void run_to_death(runtime::FunctionRef<void()> collective) const;
  Work run_beside(Issued issued, bool queued);
  bool changes_nothing(const CollectiveCall& call) const;
  Objects exchange(CollectiveCall& call, std::any own);
  // The Work of a call that has issued several; without async it is waited for.
  static Work join_works(std::vector<Work> works, bool is_async);

  // Operations beside their rank (works.cpp)

  // A rank's works, in the order of issue, that the rank does not know to be done, or that failed
  // and were not waited for.  Some may be settled already.
  struct Works {
    std::vector<std::shared_ptr<Work::State>> all = {};
    std::size_t forget_at = 0;  // number of works at which settled ones are erased
    std::shared_ptr<runtime::Timeline> timeline = std::make_shared<runtime::Timeline>();
  };
  std::shared_ptr<Work::State> make_work(const CallRecord& record, Group& group,
                                         std::string description,
                                         std::shared_ptr<runtime::Timeline> stream);
  void start(const std::shared_ptr<Work::State>& work, std::function<void()> body) const;
  void ended(const std::shared_ptr<Work::State>& work, const runtime::FiberResult& result) const;
  CollectiveStream& ensure_stream(const CollectiveCall& call) const;
  void enqueue(const std::shared_ptr<Work::State>& work, CollectiveStream& stream,
               std::function<void()> body) const;
  std::function<void()> on_stream(const std::shared_ptr<Work::State>& work,
                                  std::function<void()> body) const;
  void wait_for_works();
  void know_all_done(int rank);
  // The failure of a work that nobody has waited for: it may be why others wait for ever.
  std::exception_ptr unnoticed_failure() const;

  // Messages (point_to_point.cpp)

  // `objects`, if not null, replaces the tensor: the objects to send, or the place that receives
  // them.
  Work post(const MessageCall& wanted, const Tensor& x,
            std::shared_ptr<std::any> objects = nullptr);
  Message make_message(const Group& group, const MessageCall& wanted) const;
  void check_peer_can_call(const Message& message) const;
  void prepare(std::vector<MessageCall>& calls, const std::vector<P2POp>& ops) const;
  void deliver(Group& group, const Message& later, const Message& earlier);

  // Schedules that are explored (explored.cpp); without one they do nothing.

  // The caller's next call takes longer than usual.
  void delay_call() const;
  void observe(const CollectiveCall& call) const;
  // The message is in the group's mailbox, or will be.  Returns true for a receive from any rank
  // that is to wait until nothing else can go on.
  bool note_message(const Group& group, const Message& message) const;
  void note_match(const Group& group, const Message& receive, const Message& send) const;
  // Lets such a receive get its message then, if there is one by now.
  void settle_at_standstill(Group& group, const Mailbox::Address& address);
  struct SettleLater;

  DistributedContext& context;
  RuntimeContext& torch;
  const std::shared_ptr<runtime::Simulation> simulation;
  const std::shared_ptr<const BackendConfig> settings;
  const Reproducible least_reproducible;

  std::unique_ptr<Backend> backend;
  std::shared_ptr<Group> world;
  std::shared_ptr<Group> whole_world;            // before it was shrunk; null: it was not
  std::map<int, std::shared_ptr<Group>> groups;  // the others, by number
  int group_count = 0;                           // for names
  struct NewGroup {
    std::shared_ptr<Group> group;
    int handed_out = 0;
  };
  std::map<NewGroupKey, NewGroup> new_groups;  // until all that must call have called
  // By ranks, and by global rank: how many groups of these ranks it has received.
  std::map<std::vector<int>, std::map<int, std::uint64_t>> local_groups;
  runtime::Meetings<std::any> object_meetings;
  std::map<int, Works> works;      // by global rank
  std::uint64_t issued_count = 0;  // operations issued with async_op, and messages
  bool initialized_for_all = false;
  std::set<int> initialized_ranks;   // those that called init_process_group() themselves
  std::optional<int> started_ranks;  // by the spawn() that is or was the last to run
  std::set<int> returned_ranks;      // of those
  std::set<int> lost_ranks;          // of the returned ones: those that have died
};

}  // namespace kernbench::distributed
