// Reduces gradients over ranks in buckets, beside the backward pass that makes them: c10d's Reducer
// (ADR-0222).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <source_location>
#include <string>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/distributed/work.h"
#include "runtime/parallel/bucket_assignment.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/flat_buffer.h"
#include "runtime/parallel/reducer_errors.h"
#include "runtime/parallel/step_times.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/units.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn::parallel {

struct ReducerOptions {
  distributed::ProcessGroup process_group = {};
  Bytes first_bucket_bytes_cap = 0;
  Bytes bucket_bytes_cap = 0;
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  std::source_location location = {};  // of its collectives, for messages
};

class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  // Hooks on the parameters call the reducer as long as it lives.
  // REQUIRES: there are parameters, and all require gradients
  static std::shared_ptr<Reducer> make(RuntimeContext& torch, std::vector<std::string> names,
                                       std::vector<Tensor> parameters,
                                       const ReducerOptions& options);

  // The next backward pass, and those after it, divide gradients by this number.
  void set_divisor(int divisor) { divisor_ = divisor; }
  // Takes part in a pass of the other ranks with zeros for gradients.
  void shadow_pass();

  // Throws CollectiveError KB-A015 if there is a hook already.
  void register_comm_hook(CommHook hook);

  // A forward pass begins whose gradients are to be reduced.
  void prepare_for_forward();
  // A forward pass begins.  Forms the buckets anew, once, in the order in which gradients have
  // arrived on rank 0.  Throws CollectiveError KB-A016 if the last reduction was not finished.
  void rebuild_buckets();
  // The next backward pass reduces gradients, of a forward pass with these outputs.
  void prepare_for_backward(const std::vector<Tensor>& outputs);
  // An exception has left that pass.
  void forget_backward() { expects_gradients_ = false; }

  struct Bucket {
    BucketParameters parameters;
    Bytes bytes = 0;  // of the parameters
    FlatBuffer buffer;
    // Each view is the part of the buffer that a gradient lies in.  It is undefined where gradients
    // are copied into the buffer.
    std::vector<Tensor> views;
    std::size_t pending = 0;          // gradients that have not come in this pass
    std::optional<Future> mean = {};  // of the last reduction
    std::shared_ptr<const DeviceInstant> ready = {};
  };
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<std::string>& names() const { return names_; }
  std::int64_t iteration() const { return iteration_; }
  // Bytes of the first buckets.
  const std::vector<Bytes>& first_bucket_bytes() const { return first_bucket_bytes_; }
  // The sizes at which the first buckets, and those of now, are closed.
  const std::vector<Bytes>& first_bucket_limits() const { return first_bucket_limits_; }
  std::vector<Bytes> bucket_limits() const;
  Bytes bucket_cap() const { return options_.bucket_bytes_cap; }
  bool has_rebuilt_buckets() const { return has_rebuilt_buckets_; }
  // The times of the last step whose gradients were reduced, until now.
  // REQUIRES: the device has done all that the caller has launched
  StepTimes last_step() const;
  // The parameters in the order in which their gradients arrived in the last pass.
  const std::vector<std::size_t>& ready_order() const { return ready_order_; }
  Bytes unused_bytes() const;
  std::size_t reduced_count() const { return next_bucket_; }  // buckets, in the last pass
  // The first 10 steps, and every 100th.
  const std::vector<LoggedStep>& logged_steps() const { return logged_; }

 private:
  Reducer(RuntimeContext& torch, std::vector<std::string> names, std::vector<Tensor> parameters,
          const ReducerOptions& options);

  bool is_first_static_iteration() const { return options_.static_graph && iteration_ == 1; }
  bool is_later_static_iteration() const { return options_.static_graph && iteration_ > 1; }
  bool searches_unused() const { return options_.find_unused_parameters && !options_.static_graph; }
  bool should_rebuild() const { return !searches_unused() && !has_rebuilt_buckets_; }
  ReducerState state() const;

  std::vector<Bytes> first_limits() const;
  std::vector<BucketParameters> assign(const std::vector<std::size_t>& order) const;
  void make_buckets(std::vector<BucketParameters> assignment);
  void make_views(Bucket& bucket) const;
  std::vector<BucketParameters> from_rank_0(const std::vector<BucketParameters>& own);
  // Returns rank 0's numbers, by a broadcast.
  std::vector<std::size_t> broadcast(const std::vector<std::size_t>& numbers);
  void check_finished() const;

  void begin_step();
  void log_instant(std::shared_ptr<const DeviceInstant> LoggedStep::*instant);
  void arrived(std::size_t parameter);  // its gradient, or it gets none in this pass
  void mark_ready(std::size_t parameter);
  void pack(Bucket& bucket);
  void reduce_ready_buckets();
  void reduce(std::size_t index);
  void reduce_used();
  void reduce_all();  // of the first iteration of a static graph
  void finish();
  void unpack(Bucket& bucket);
  bool is_used_somewhere(std::size_t parameter);

  RuntimeContext& torch_;
  const std::vector<std::string> names_;
  const std::vector<Tensor> parameters_;
  const ReducerOptions options_;
  const int rank_;
  int divisor_;  // the number of ranks, or of those with inputs
  CommHook hook_;

  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<Bytes> first_bucket_bytes_;
  std::vector<Bytes> first_bucket_limits_;
  bool has_rebuilt_buckets_ = false;
  std::vector<std::size_t> rebuilt_order_;

  std::int64_t iteration_ = 0;
  std::shared_ptr<const DeviceInstant> step_began_;
  std::vector<LoggedStep> logged_;
  bool is_logged_ = false;  // this step
  bool expects_gradients_ = false;
  bool must_finish_ = false;  // a gradient has come, and not all of them
  bool has_marked_unused_ = false;
  bool has_queued_end_ = false;
  std::size_t next_bucket_ = 0;
  std::vector<std::size_t> ready_order_;
  std::set<std::size_t> ready_;
  std::vector<std::size_t> unused_;

  std::vector<int> uses_;        // of a static graph: how often each parameter's hook is called
  std::vector<int> uses_ahead_;  // in this pass
  // Since the last reduction, in passes under no_sync() too: here, and, when that has been reduced,
  // on any rank.
  std::vector<bool> is_used_;
  Tensor used_;
  distributed::Work used_work_;
  bool knows_used_ = false;
  bool has_warned_ = false;
};

}  // namespace kernbench::nn::parallel
