// megatron.core.tensor_parallel.random: named states of the random numbers, of which some are equal
// on all ranks of a tensor parallel group and some are not.  State is kept for each rank by itself.
//
// Random numbers are drawn by the host, to initialize weights: not inside a kernel (CollectiveError
// KB-R012).

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "runtime/context/runtime_context.h"
#include "tp/generator.h"

namespace kernbench::tp {

inline constexpr std::string_view kModelParallelRng = "model-parallel-rng";
inline constexpr std::string_view kExpertParallelRng = "expert-parallel-rng";
inline constexpr std::string_view kDataParallelRng = "data-parallel-rng";

class RNGStatesTracker;

// While it lives, the default generator stands at a named state, which goes on from where it is
// left.  Forks nest.
class [[nodiscard]] RNGFork {
 public:
  RNGFork(RNGStatesTracker& tracker, std::string name);
  ~RNGFork();
  RNGFork(const RNGFork&) = delete;
  RNGFork& operator=(const RNGFork&) = delete;

 private:
  RNGStatesTracker& tracker_;
  const std::string name_;
  const Generator outside_;
};

// CudaRNGStatesTracker.
class RNGStatesTracker {
 public:
  using States = std::map<std::string, Generator, std::less<>>;

  // Its forks set this generator.
  explicit RNGStatesTracker(Generator& default_generator) : default_generator_(default_generator) {}
  RNGStatesTracker(const RNGStatesTracker&) = delete;
  RNGStatesTracker& operator=(const RNGStatesTracker&) = delete;

  bool is_initialized() const { return is_initialized_; }  // a state was added, or states were set
  void reset();

  // Copies, to go back to them later.
  States get_states() const { return states_; }
  void set_states(States states);

  // Throws CollectiveError KB-T004: "seed 1234 already exists", "cuda rng state x already exists".
  void add(std::string_view name, std::uint64_t seed);

  // Throws CollectiveError KB-T004: "cuda rng state x is not added".
  RNGFork fork(std::string_view name = kModelParallelRng);

 private:
  friend class RNGFork;

  Generator& default_generator_;
  bool is_initialized_ = false;
  States states_;
  std::set<std::uint64_t> seeds_;
};

// The caller's (get_cuda_rng_tracker).
RNGStatesTracker& get_rng_tracker(RuntimeContext& torch);

// The generator that the caller draws from; layers do for their weights.  Until a seed is set all
// ranks' are equal.
Generator& default_generator(RuntimeContext& torch);

// Ranks to take in the place of the caller's.
struct ModelParallelSeedOptions {
  std::optional<int> tp_rank = std::nullopt;
  std::optional<int> ep_rank = std::nullopt;
  std::optional<int> etp_rank = std::nullopt;
};

// Seeds the caller's generators (model_parallel_cuda_manual_seed); the states of before are
// dropped.
//   default and data-parallel-rng  seed                                   equal in data parallelism
//   model-parallel-rng             seed + 2718 + tp_rank
//   expert-parallel-rng            seed + 1024 + 100 * ep_rank + etp_rank
// Throws CollectiveError KB-T002 if a rank is not given and there are no groups.
void model_parallel_manual_seed(RuntimeContext& torch, std::uint64_t seed,
                                const ModelParallelSeedOptions& options = {});

}  // namespace kernbench::tp
