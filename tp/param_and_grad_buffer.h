// Gradients of many parameters in buckets of one buffer each, and what ranks send of them
// (megatron.core.distributed.param_and_grad_buffer).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/distributed/work.h"
#include "runtime/parallel/flat_buffer.h"
#include "runtime/parallel/step_times.h"
#include "runtime/torch/runtime_context.h"
#include "tp/distributed_data_parallel.h"
#include "tp/parameter.h"

namespace kernbench::tp {

class ParamAndGradBucket {
 public:
  struct Setting {
    RuntimeContext& torch;
    DistributedDataParallelConfig config;
    distributed::ProcessGroup group;  // data parallel
    std::size_t index = 0;            // among the model's buckets
  };

  ParamAndGradBucket(const Setting& setting, std::vector<Parameter> params);

  const std::vector<Parameter>& params() const { return params_; }
  // main_grad of all parameters, one after the other, each at a multiple of 64 elements.  A tensor
  // that was returned before zero_grad_data() or a gradient is not kept up to date.
  const Tensor& grad_data() const { return grads().tensor(); }
  // Copies main_grad of a parameter out of the buffer.  Throws DeviceError KB-F003 if its holders
  // have summands.
  Tensor main_grad(std::size_t param) const;
  // main_grad in the buffer itself; undefined if the parameter's holders have parts of it, or
  // summands.
  Tensor main_grad_view(std::size_t param) const;
  // The elements of each holder's part of the buffer that this rank's optimizer has: all, or its
  // 1 / dp.
  std::int64_t shard_begin() const { return shard_size() * shard_; }
  std::int64_t shard_size() const { return grads_.part_size(); }
  // The mean of the gradients in this rank's elements, after finish_grad_sync().
  Tensor grad_shard() const;
  // Returns a view of the part of a parameter's gradient that is in `shard`, which is grad_shard()
  // or like it; undefined if there is none.  REQUIRES: the parameters lie whole on their holders
  Tensor part_of_shard(const Tensor& shard, std::size_t param) const;
  // True if holders have parts of the parameters, rather than copies.
  bool has_parts_on_holders() const;
  // This rank's elements of the parameters.
  Tensor param_shard() const { return packed_params().part(shard_); }
  // Returns those of this rank's elements, `shard` or parts of it, that count in a norm over all
  // ranks (counts_in_norms()).
  std::vector<Tensor> grads_for_norm(const Tensor& shard) const;

  // Adds a parameter's grad() to its main_grad, and drops it.
  void add_grad(std::size_t param);
  // Notes a gradient of the last microbatch; the last one starts the reduction, unless this is the
  // first batch, in which the gradients are counted.
  void register_grad_ready(std::size_t param);
  // Throws CollectiveError KB-T008 if a reduction is under way.
  void start_grad_sync();
  // Waits for the reduction, and starts it if nothing overlaps.  Throws CollectiveError KB-T008 if
  // gradients are missing.
  void finish_grad_sync();
  // Throws CollectiveError KB-T008 if gradients have come since the last finish_grad_sync().
  void check_is_reduced() const;
  // Forgets also what a backward pass has begun that an exception has left.
  void zero_grad_data();
  // The times at which the last batch's gradients were there, and were sent.  REQUIRES: there was
  // one that was sent with overlap_grad_reduce, and the device has done all that the caller has
  // launched
  nn::parallel::BucketTimes reduction() const;

  // True if ranks share its elements (use_distributed_optimizer).
  bool is_shared() const { return setting_.config.use_distributed_optimizer; }
  // The parameters, one after the other as the gradients are.
  Tensor pack_params() const { return packed_params().tensor(); }
  // This rank's elements, in f32, are new.  All ranks' are rounded to the parameters' type, and
  // given to the parameters: now, or with overlap_param_gather by finish_param_sync().
  void update_params(const Tensor& master);
  // Starts the all_gather of what update_params() was given, unless it is under way.
  void start_param_sync();
  // Gives the parameters what it has gathered.  Starts it if nobody has.
  void finish_param_sync();
  bool awaits_param_sync() const { return master_.defined() || gathered_; }
  bool is_gathering_params() const { return gathered_.has_value(); }

 private:
  std::string describe_difference() const;
  bool is_first_batch() const { return expected_.empty(); }
  std::vector<Tensor> tensors() const { return {params_.begin(), params_.end()}; }
  nn::parallel::FlatBuffer make_flat() const;
  const nn::parallel::FlatBuffer& grads() const;
  void mark_as_gradients() const;
  void hold_summands();
  nn::parallel::FlatBuffer packed_params() const;

  const Setting setting_;
  const std::vector<Parameter> params_;
  const int dp_ = 1;
  nn::parallel::FlatBuffer grads_;
  // Parameters whose main_grad is zero, whatever the buffer has: a first gradient takes its place,
  // and zeros are written only where none comes before somebody looks.
  mutable std::vector<bool> is_zero_;
  std::int64_t shard_ = 0;
  Tensor reduced_;                         // this rank's elements, if the buffer has summands
  mutable bool is_reduced_stale_ = false;  // it has elements of a batch that counts no more
  std::vector<std::size_t> ready_;         // parameters with a gradient of this batch
  std::vector<std::size_t> expected_;      // those of the first batch
  distributed::Work work_;                 // of this batch, or of the last one
  std::shared_ptr<const nn::parallel::DeviceInstant> sent_;
  bool is_reducing_ = false;
  bool has_new_grads_ = false;                        // since the last reduction
  Tensor master_;                                     // not gathered yet
  std::optional<nn::parallel::FlatBuffer> gathered_;  // not given to the parameters yet
  distributed::Work gathering_;
};

// Cuts parameters, in reverse order, into buckets.  One is closed when it is as long as the bucket
// size, the gaps before parameters among it.
std::vector<std::vector<Parameter>> bucketed_params(const std::vector<Parameter>& params,
                                                    const DistributedDataParallelConfig& config,
                                                    int dp);

}  // namespace kernbench::tp
