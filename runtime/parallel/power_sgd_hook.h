// PowerSGD: sends factors of low rank instead of gradients
// (torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook, of torch 1.13; ADR-0241).
//
//   ddp->register_comm_hook(std::make_shared<kb::nn::parallel::PowerSGDState>(
//       kb::nn::parallel::PowerSGDOptions{.start_powerSGD_iter = 10}),
//       kb::nn::parallel::powerSGD_hook);

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "runtime/distributed/process_group.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::nn::parallel {

// The arguments of torch's PowerSGDState, with its defaults.
struct PowerSGDOptions {
  distributed::ProcessGroup process_group = {};
  std::int64_t matrix_approximation_rank = 1;
  std::int64_t start_powerSGD_iter = 1000;  // before this step gradients are reduced as they are
  // A gradient [n, m] is compressed if (n + m) rank times this is less than n m; of more
  // dimensions, the last ones are one.
  double min_compression_rate = 2;
  bool use_error_feedback = true;  // what one step loses is added to the next one's gradients
  bool warm_start = true;          // a step begins with the last one's Q, not with random numbers
  double orthogonalization_epsilon = 0;
  std::uint32_t random_seed = 0;  // the same on all ranks
};

// One rank's state, of one DistributedDataParallel.
class PowerSGDState {
 public:
  // Throws CollectiveError KB-A015, in torch's words, if start_powerSGD_iter is below 2, but for
  // neither error feedback nor a warm start.
  explicit PowerSGDState(const PowerSGDOptions& its_options = {});
  // A copy would take its random numbers from the same generator.
  PowerSGDState(const PowerSGDState&) = delete;
  PowerSGDState& operator=(const PowerSGDState&) = delete;

  const PowerSGDOptions options;
  std::int64_t iter = 0;                 // steps so far
  std::map<std::size_t, Tensor> errors;  // by bucket
  struct Memory;
  const std::shared_ptr<Memory> memory;
};

// Three all_reduces of a bucket, each after the one before: of gradients that are not compressed,
// of P = M Q for each matrix M, and of Q = M^T P with P orthogonal; the mean is P Q^T.
// Throws DeviceError KB-F003 if holders have parts of the bucket.
Future powerSGD_hook(const std::shared_ptr<PowerSGDState>& state, GradBucket& bucket);

}  // namespace kernbench::nn::parallel
