#include "benches/plan/candidates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "benches/ddp/axes.h"
#include "benches/ddp/pipeline_step.h"
#include "benches/pipeline/named_schedules.h"
#include "benches/train/memory_estimate.h"
#include "benches/train/model_settings.h"
#include "benches/train/parallel_language_model.h"
#include "benches/train/recomputation.h"
#include "benches/train/used_pes.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::plan {

namespace {

// The part of each plan with so many tensor parallel ranks that these decide.
ddp::StepInput input_of(const Question& question, int tp, int pp) {
  return {.model = question.model.kind,
          .size = question.model.size,
          .dtype = question.dtype,
          .world = question.world,
          .is_mesh = tp > 1 || pp > 1,
          .tp = tp,
          .parallel = {.model = question.model.kind, .sequence_parallel = tp > 1},
          .pp = pp};
}

std::optional<std::string> reason_against(const ddp::StepInput& input) {
  const std::int64_t batch = input.size.batch;
  if (batch % input.dp() != 0) {
    return fmt::format("tp {}: dp {} does not divide batch, which is {}", input.tp, input.dp(),
                       batch);
  }
  train::LanguageModelSize size = input.size;
  size.batch /= input.dp();
  return train::describe_unshared(size, input.tp, input.parallel);
}

// At least the bytes of a rank's gradients: buffers of ZeRO-1 have gaps, and each of GPT's tensor
// parallel ranks has the whole table of positions.
double most_gradient_bytes(const ddp::StepInput& input) {
  constexpr double kGaps = 1.05;
  train::LanguageModelSize size = input.size;
  size.vocab = train::parallel_vocab(size, input.tp);
  const train::ParameterCount count = train::count_parameters(input.model, size);
  const auto positions = static_cast<double>(size.seq * size.hidden);
  const double elements = (count.matrices / input.tp + positions + count.vectors) / input.pp;
  return kGaps * elements * static_cast<double>(size_of(input.dtype));
}

// The smallest first; of those that are above all gradients one, since they make the same buckets.
std::vector<double> different_caps(std::vector<double> caps, const ddp::StepInput& input) {
  if (input.dp() == 1) return {caps.front()};
  std::ranges::sort(caps);
  const double all = most_gradient_bytes(input) / (1 << 20);
  const auto last = std::ranges::find_if(caps, [&](double cap) { return cap >= all; });
  if (last != caps.end()) caps.erase(last + 1, caps.end());
  return caps;
}

// Whether so many ranks have steps of the scheme, and others than of ddp.
bool has_scheme(const ddp::StepInput& input, ddp::Scheme scheme) {
  if (input.dp() == 1 || input.pp > 1) return scheme == ddp::Scheme::ddp;
  return !input.is_mesh || scheme != ddp::Scheme::fsdp2;
}

using pipeline::NamedLists;

// All ranks of a stage are simulated, since those at its ends are unlike the others: with more the
// host takes long.
constexpr std::int64_t kMostOfStage = 8;

// The lists of the settings.
struct Axes {
  std::vector<std::int64_t> stages;  // ranks of a pipeline
  std::vector<const NamedLists*> schedules;
  int chunks = 1;
  std::vector<ddp::Scheme> schemes;
  std::vector<double> caps;
  std::vector<std::int64_t> microbatches;
  std::vector<train::Recomputation> recomputations;
};

std::vector<train::Recomputation> read_recomputations(const Settings& settings) {
  using Kind = train::Recomputation::Kind;
  std::vector<train::Recomputation> found;
  for (const std::string_view text : settings.list("checkpoint")) {
    found.push_back(train::parse_recomputation(text));
    const Kind kind = found.back().kind;
    if (kind == Kind::none || kind == Kind::selective || kind == Kind::all) continue;
    throw UsageError(
        "KB-U012",
        "--set checkpoint={}: a plan's layers are alike: none, selective or all of each "
        "is computed again",
        text);
  }
  return found;
}

Axes read_axes(const Settings& settings) {
  std::vector<const NamedLists*> schedules;
  for (const NamedLists& each : settings.choices("schedule", pipeline::kSchedules)) {
    schedules.push_back(&*std::ranges::find(pipeline::kSchedules, each.name, &NamedLists::name));
  }
  return {.stages = settings.integers("pp", 1, train::kMostRanks),
          .schedules = std::move(schedules),
          .chunks = static_cast<int>(settings.integer("chunks", 2, train::kMost)),
          .schemes = ddp::read_schemes(settings),
          .caps = ddp::read_caps(settings),
          .microbatches = settings.integers("microbatches", 1, train::kMost),
          .recomputations = read_recomputations(settings)};
}

// Whether the pipeline's numbers fit its schedule, and its halves what is computed again.
bool has_schedule(const ddp::StepInput& input) {
  try {
    const bool splits = ddp::splits_backward(ddp::list_actions(input));
    return !splits || input.recomputation.kind == train::Recomputation::Kind::none;
  } catch (const CollectiveError&) {
    return false;
  }
}

// The plans that are alike but for their scheme, cap and recomputation.
void add_plans(const Axes& axes, ddp::StepInput input, std::vector<Plan>& plans) {
  for (const ddp::Scheme scheme : axes.schemes) {
    if (!has_scheme(input, scheme)) continue;
    input.scheme = scheme;
    Place place{.family = plans.empty() ? 0 : plans.back().place.family + 1};
    for (const double cap : different_caps(axes.caps, input)) {
      input.bucket_cap_mb = cap;
      place.recompute = 0;
      for (const train::Recomputation& recomputation : axes.recomputations) {
        input.recomputation = recomputation;
        if (input.pp > 1 && !has_schedule(input)) continue;
        plans.push_back({.input = input, .place = place});
        ++place.recompute;
      }
      ++place.cap;
    }
  }
}

// Those of each schedule whose stages share the layers.
void add_pipelines(const Axes& axes, ddp::StepInput input, std::vector<Plan>& plans) {
  for (const NamedLists* const schedule : axes.schedules) {
    input.schedule = schedule;
    input.chunks = schedule->stages_per_rank(axes.chunks);
    if (input.microbatches == 1 || input.size.layers % input.stages() != 0) continue;
    add_plans(axes, input, plans);
  }
}

}  // namespace

std::string describe(const ddp::StepInput& input) {
  std::string text = fmt::format("tp {} x dp {}", input.tp, input.dp());
  if (input.pp > 1) text += fmt::format(" x pp {}", input.pp);
  if (input.schedule != nullptr) text += fmt::format(", {}", name_of(*input.schedule));
  if (input.dp() > 1) {
    text += fmt::format(", {}, cap {}", name_of(input.scheme), input.bucket_cap_mb);
  }
  if (input.microbatches > 1) text += fmt::format(", {} micro-batches", input.microbatches);
  if (input.recomputation.kind != train::Recomputation::Kind::none) {
    text += fmt::format(", checkpoint {}", name_of(input.recomputation));
  }
  return text;
}

Candidates list_candidates(const Question& question, const Settings& settings,
                           const Topology& topology) {
  const Axes axes = read_axes(settings);
  Candidates found;
  for (const std::int64_t pp : axes.stages) {
    if (pp > 1 && !settings.is_set("pp") && question.world > pp * kMostOfStage) {
      found.impossible.push_back(
          fmt::format("pp {}, unless it is given: a stage has {} ranks", pp, question.world / pp));
      continue;
    }
    for (int tp = 1; tp * pp <= question.world; ++tp) {
      if (question.world % (tp * pp) != 0) continue;
      ddp::StepInput input = input_of(question, tp, static_cast<int>(pp));
      if (auto why = reason_against(input)) {
        const bool is_new = std::ranges::find(found.impossible, *why) == found.impossible.end();
        if (is_new) found.impossible.push_back(std::move(*why));
        continue;
      }
      input.size.batch /= input.dp();
      for (const std::int64_t microbatches : axes.microbatches) {
        if (input.size.batch % microbatches != 0) continue;
        input.microbatches = static_cast<int>(microbatches);
        if (train::describe_unshared(input.microbatch(), tp, input.parallel)) continue;
        input.on = train::read_pes(settings, topology, input.microbatch().tokens());
        pp == 1 ? add_plans(axes, input, found.plans) : add_pipelines(axes, input, found.plans);
      }
    }
  }
  if (!found.plans.empty()) return found;
  if (found.impossible.empty()) {
    found.impossible.emplace_back("ddp or zero1 is wanted for tp > 1, and 1 of micro-batches");
  }
  throw UsageError("KB-U012", "plan: no plan has {} ranks and {} samples: {}", question.world,
                   question.model.size.batch, fmt::join(found.impossible, "; "));
}

}  // namespace kernbench::benches::plan
