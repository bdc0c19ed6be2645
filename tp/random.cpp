#include "tp/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/fiber/fiber_local.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "tp/misuse.h"
#include "tp/parallel_groups.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

namespace {

constexpr std::uint64_t kDefaultSeed = 67280421310721;  // PyTorch's

struct RankRandom {
  Generator generator{kDefaultSeed};
  RNGStatesTracker tracker{generator};
};

RankRandom& random_of(RuntimeContext& torch) {
  const runtime::FiberLocal& caller =
      caller_outside_kernels(torch, "random numbers of the host are");
  return simulation_of(torch).attachments().get<runtime::PerRank<RankRandom>>().of(caller);
}

}  // namespace

RNGFork::RNGFork(RNGStatesTracker& tracker, std::string name)
    : tracker_(tracker), name_(std::move(name)), outside_(tracker.default_generator_) {
  tracker_.default_generator_ = tracker_.states_.at(name_);
}

RNGFork::~RNGFork() {
  tracker_.states_.insert_or_assign(name_, tracker_.default_generator_);
  tracker_.default_generator_ = outside_;
}

RNGStatesTracker::RNGStatesTracker(Generator& default_generator)
    : default_generator_(default_generator) {}
RNGStatesTracker::~RNGStatesTracker() = default;

RNGStatesTracker::States RNGStatesTracker::get_states() const {
  return states_;
}

void RNGStatesTracker::reset() {
  is_initialized_ = false;
  states_.clear();
  seeds_.clear();
}

void RNGStatesTracker::set_states(States states) {
  is_initialized_ = true;
  states_ = std::move(states);
}

void RNGStatesTracker::add(std::string_view name, std::uint64_t seed) {
  if (std::ranges::find(seeds_, seed) != seeds_.end()) {
    wrong_rng_state(fmt::format("seed {} already exists", seed));
  }
  if (states_.contains(name)) {
    wrong_rng_state(fmt::format("cuda rng state {} already exists", name));
  }
  is_initialized_ = true;
  seeds_.push_back(seed);
  states_.emplace(name, Generator(seed));
}

RNGFork RNGStatesTracker::fork(std::string_view name) {
  if (!states_.contains(name)) {
    wrong_rng_state(fmt::format("cuda rng state {} is not added", name));
  }
  return RNGFork(*this, std::string(name));
}

RNGStatesTracker& get_rng_tracker(RuntimeContext& torch) {
  return random_of(torch).tracker;
}

Generator& default_generator(RuntimeContext& torch) {
  return random_of(torch).generator;
}

void model_parallel_manual_seed(RuntimeContext& torch, std::uint64_t seed,
                                const ModelParallelSeedOptions& options) {
  const int tp_rank = options.tp_rank ? *options.tp_rank : get_tensor_model_parallel_rank(torch);
  const int ep_rank = options.ep_rank ? *options.ep_rank : get_expert_model_parallel_rank(torch);
  const int etp_rank =
      options.etp_rank ? *options.etp_rank : get_expert_tensor_parallel_rank(torch);
  RankRandom& random = random_of(torch);
  random.tracker.reset();
  random.generator = Generator(seed);
  random.tracker.add(kDataParallelRng, seed);
  random.tracker.add(kModelParallelRng, seed + 2718 + static_cast<std::uint64_t>(tp_rank));
  random.tracker.add(kExpertParallelRng, seed + 1024 + 100 * static_cast<std::uint64_t>(ep_rank) +
                                             static_cast<std::uint64_t>(etp_rank));
}

}  // namespace kernbench::tp
