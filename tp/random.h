// megatron.core.tensor_parallel.random: named states of the random numbers, some of them equal on
// all ranks of a tensor parallel group, others not.  State is kept per rank.
//
// The host draws random numbers to initialize weights; drawing inside a kernel is an error
// (CollectiveError KB-R012).

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/torch/runtime_context.h"

namespace kernbench::tp {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): 64 bits of state, which are enough to initialize
// weights.  It has value semantics: a copy continues independently from the same state.  Each
// number, of any kind, is one step, so that any number can be drawn without the previous ones.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : state_(mixed(seed)) {}

  std::uint64_t bits() { return mixed(state_ += kStep); }
  // A number in [0, 1), a multiple of 2^-24.
  float uniform();
  // A normal number with mean 0 and variance 1 (Marsaglia's polar method, with a generator of its
  // own, since the method draws a varying count of numbers).
  float normal();
  // Advances as if `count` numbers had been drawn.
  void skip(std::int64_t count) { state_ += static_cast<std::uint64_t>(count) * kStep; }

  friend bool operator==(const Generator&, const Generator&) = default;

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;
  static std::uint64_t mixed(std::uint64_t bits);

  std::uint64_t state_;
};

inline constexpr std::string_view kModelParallelRng = "model-parallel-rng";
inline constexpr std::string_view kExpertParallelRng = "expert-parallel-rng";
inline constexpr std::string_view kDataParallelRng = "data-parallel-rng";

class RNGStatesTracker;

// While it lives, the default generator draws from a named state; that state then keeps its
// position.  Forks nest.
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

  // Forks switch the state of `default_generator`.
  explicit RNGStatesTracker(Generator& default_generator);
  ~RNGStatesTracker();
  RNGStatesTracker(const RNGStatesTracker&) = delete;
  RNGStatesTracker& operator=(const RNGStatesTracker&) = delete;

  bool is_initialized() const { return is_initialized_; }  // a state was added, or states were set
  void reset();

  // Copies of the states, for set_states() later.
  States get_states() const;
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
  std::vector<std::uint64_t> seeds_;
};

// The caller's (get_cuda_rng_tracker).
RNGStatesTracker& get_rng_tracker(RuntimeContext& torch);

// The generator from which the caller, and layers for their weights, draw.  Until a seed is set,
// all ranks' generators are equal.
Generator& default_generator(RuntimeContext& torch);

// Ranks to use instead of the caller's.
struct ModelParallelSeedOptions {
  std::optional<int> tp_rank = std::nullopt;
  std::optional<int> ep_rank = std::nullopt;
  std::optional<int> etp_rank = std::nullopt;
};

// Seeds the caller's generators (model_parallel_cuda_manual_seed) and drops earlier states.
//   default and data-parallel-rng  seed                                   equal in data parallelism
//   model-parallel-rng             seed + 2718 + tp_rank
//   expert-parallel-rng            seed + 1024 + 100 * ep_rank + etp_rank
// Throws CollectiveError KB-T002 if a rank is not given and there are no groups.
void model_parallel_manual_seed(RuntimeContext& torch, std::uint64_t seed,
                                const ModelParallelSeedOptions& options = {});

}  // namespace kernbench::tp
