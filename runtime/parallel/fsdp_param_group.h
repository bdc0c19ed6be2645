// The parameters of one call of fully_shard, which are gathered together, and whose gradients are
// reduced together (torch.distributed.fsdp's FSDPParamGroup; ADR-0237).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/distributed/work.h"
#include "runtime/nn/state.h"
#include "runtime/parallel/fsdp_copies.h"
#include "runtime/parallel/fully_shard.h"
#include "runtime/parallel/step_times.h"
#include "runtime/stream/stream.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/units.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::distributed::fsdp {

class ParamGroup;
using Names = std::shared_ptr<const std::vector<std::string>>;

// The groups of a root module share the streams beside the one that computes, and the operations
// under way on them.
class CommContext {
 public:
  explicit CommContext(RuntimeContext& torch);

  ahbm::Stream copy_in;         // of all_gathers
  ahbm::Stream reduce_scatter;  // what follows a reduce_scatter
  ahbm::Stream all_reduce;      // of replicas, and what follows

  // The buffers of the forward pass's last all_gathers, and when they have been copied out.  They
  // are kept until the next ones have come, which so do not wait for the copy.
  struct CopiedOut {
    std::vector<Tensor> flats;
    ahbm::Event event;
  };
  std::optional<CopiedOut> last_gathered;
  void free_last_gathered();
  // Makes all_gathers that are issued from now on follow the event.
  void gather_after(const ahbm::Event& event) const { copy_in.wait_event(event); }

  // The collectives over the ranks that share parameters, since the last forward pass began.
  struct Sent {
    std::string group;  // its name
    Names parameters;
    std::string collective;
    Bytes bytes = 0;
    std::shared_ptr<const nn::parallel::DeviceInstant> ready;
    std::shared_ptr<Work::Times> times;  // filled in when it has been waited for
  };
  std::vector<Sent> sent;
  std::shared_ptr<const nn::parallel::DeviceInstant> step_began;
  std::int64_t steps = 0;

  // Groups that are gone take themselves out.
  ParamGroup* last_reduced = nullptr;      // whose reduce_scatter has been issued last
  std::vector<ParamGroup*> forward_order;  // for each forward pass its group, or null
};

// The pass in which a group's parameters are used.
enum class Pass : std::uint8_t { idle, forward, pre_backward, post_backward };

struct ShardedParameter {
  std::string name;
  Tensor whole;        // what forward() uses; its elements are there while the group is unsharded
  Tensor padded;       // this rank's rows, and zeros behind them unless PEs share them
  Tensor shard;        // those rows: what optimizers get
  FlatRows rows;       // in the flat buffer of an all_gather
  Tensor accumulated;  // gradients that have not been reduced, of another type than whole.grad()
};

class ParamGroup {
 public:
  struct Setting {
    RuntimeContext& torch;
    ProcessGroup shard_group;
    std::optional<ProcessGroup> replicate_group;  // with a value: HSDP
    MixedPrecisionPolicy policy;
    std::source_location location;  // of fully_shard(), for messages
  };
  ParamGroup(const Setting& setting, std::vector<ShardedParameter> parameters);
  ~ParamGroup() { leave_context(); }
  ParamGroup(const ParamGroup&) = delete;
  ParamGroup& operator=(const ParamGroup&) = delete;

  // Gives the parameters their names in a root.
  void set_names(const OrderedDict<Tensor>& parameters);
  // The name in traces and tables: "blocks.0", or "blocks.0-blocks.1" of several modules, as the
  // root names them, and "root".
  void set_name(std::string name) { name_ = std::move(name); }
  void set_context(std::shared_ptr<CommContext> context);

  bool reshard_after_forward = true;
  bool keeps_part = false;  // after the forward pass; after keep_parts_in()
  void keep_parts_in(const ProcessGroup& group);
  bool reshard_after_backward = true;
  bool reduce_grads = true;
  bool all_reduce_grads = true;
  // Backward passes add up gradients, whatever reduce_grads says, and keep the parameters.
  bool defers_reduction = false;
  std::optional<double> gradient_divide_factor;  // else the number of ranks

  // Issues the all_gather, unless it is under way or the parameters are there.
  void unshard();
  // Makes the current stream wait for the all_gather, and copies the parameters out.
  void wait_for_unshard();
  // Frees the parameters' elements, unless a forward pass shall leave them.
  void reshard();

  void pre_forward();
  void post_forward();
  // Ends the pass; the next one gathers the parameters again.
  void forward_has_thrown() noexcept;
  // Forgets the forward passes whose numbers in CommContext::forward_order are not below `begin`.
  void forget_forwards_from(std::size_t begin) noexcept;
  // Drops the gradients that have not been reduced.
  void backward_has_thrown();
  // Prefetches the group of the forward pass before this one's.
  void pre_backward(bool prefetches);
  // Reduces the gradients.  Does nothing if there are none.
  void post_backward();
  // Adds up gradients in the type in which they will be reduced, unless they will be at once.
  void accumulate_gradients(bool reduces);
  bool has_ended_backward() const { return pass_ == Pass::post_backward; }
  // Makes the current stream wait for the reduction.
  void finalize_backward();

  // Makes the current stream wait for the last reduce_scatter, whose input is no longer needed.
  void wait_for_reduce_scatter();

 private:
  // Parameters that lie alike, whole on each PE or shared by rows.  Each kind is sent by itself.
  struct Kind {
    std::vector<std::size_t> parameters;
    Names names;
  };
  // A kind's parameters in the flat buffer of an all_gather.
  struct FlatLayout {
    std::vector<FlatRows> rows;
    std::int64_t part = 0;  // elements of a rank

    explicit FlatLayout(std::vector<FlatRows> of) : rows(std::move(of)) {
      part = set_offsets(rows);
    }
  };
  // Says how the ranks of a group share the parameters.
  struct Layout {
    ProcessGroup group;
    int ranks = 1;
    int rank = 0;
    std::vector<FlatLayout> kinds;

    void set_group(RuntimeContext& torch, const ProcessGroup& of);
  };
  // A collective, with the buffer that the kind's elements come from or go to.
  struct Sent {
    std::size_t kind = 0;
    Tensor flat;
    Work work;
    std::shared_ptr<Work::Times> times;
  };
  struct Gathering {
    const Layout* layout = nullptr;
    std::vector<Sent> all;  // one for each kind
  };
  struct Reduction {
    struct Part {
      std::vector<std::size_t> parameters;
      std::vector<FlatRows> rows;
      Sent sent;
      Tensor output;
    };
    std::vector<Part> parts;              // of the kinds that have gradients
    double factor = 1;                    // of the outputs
    std::optional<ahbm::Event> has_come;  // set when what follows it is issued
  };
  // How gradients become means, where collectives do not see to it.
  struct Division {
    double divisor = 1;  // before they are added up
    double factor = 1;   // of the sums
  };

  void find_kinds();
  const Tensor& first_of(std::size_t kind) const;
  std::vector<Tensor> wholes_of(std::size_t kind) const;
  void leave_context();
  void take_space() const;
  void free_elements_of_all();
  void free_parts();
  void keep_part();
  void copy_in(const Tensor& own, std::size_t kind);
  void gather(std::size_t kind, Gathering& gathering);
  void wait_for_gathered(const std::vector<Sent>& all);
  void drop_gathering();
  std::shared_ptr<Work::Times> note(std::string_view collective, const Sent& sent) const;
  bool is_stale() const;
  DType gathered_dtype() const;
  DType reduced_dtype() const;
  ReduceOp reduce_op() const;
  Division division() const;
  std::vector<Tensor> take_gradients(const Kind& kind, Reduction::Part& part);
  void reduce();
  void scatter(Reduction::Part& part, std::vector<Tensor> gradients, double divisor);
  void settle();
  void wait_for_scattered();
  void all_reduce();
  void give_gradients();
  std::vector<Tensor> gradients_in(const Reduction::Part& part, const Tensor& output) const;
  void wait_for_post_backward();

  const Setting setting_;
  std::vector<ShardedParameter> parameters_;
  std::vector<Kind> kinds_;
  std::string name_ = "root";
  Layout layout_;
  std::optional<Layout> kept_layout_;  // of what a smaller group keeps after the forward pass
  const int ranks_;
  std::shared_ptr<CommContext> context_;

  Pass pass_ = Pass::idle;
  bool is_unsharded_ = false;
  bool gathers_anew_ = false;
  std::vector<Tensor> kept_;  // this rank's parts of what has been gathered, by kind
  std::optional<ahbm::Event> has_kept_;
  std::uint64_t gathered_ = 0;  // Simulation::last_write() when the shards were read
  std::optional<Gathering> gathering_;
  std::optional<Reduction> reduction_;        // the last one
  std::vector<Tensor> partly_reduced_;        // over a replica, without all_reduce; by kind
  std::optional<ahbm::Event> has_reduced_;    // and the gradients are there
  std::vector<std::size_t> forward_indices_;  // in CommContext::forward_order
};

}  // namespace kernbench::distributed::fsdp
