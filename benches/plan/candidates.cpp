#include "benches/plan/candidates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
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
          .pp = pp,
          .finds_races = false};
}

std::optional<std::string> reason_against(const ddp::StepInput& input) {
  const std::int64_t batch = input.size.batch;
  if (batch % input.dp() != 0) {
    return fmt::format("dp {} does not divide batch, which is {}", input.dp(), batch);
  }
  train::LanguageModelSize size = input.size;
  size.batch /= input.dp();
  return train::describe_unshared(size, input.tp, input.parallel);
}

// Returns at least the bytes of a rank's gradients: buffers of ZeRO-1 have gaps, each of GPT's
// tensor parallel ranks has the whole table of positions, and a pipeline's first and last stage
// have the embedding and the head.
double most_gradient_bytes(const ddp::StepInput& input) {
  constexpr double kGaps = 1.05;
  train::LanguageModelSize size = input.size;
  size.vocab = train::parallel_vocab(size, input.tp);
  size.layers /= input.pp;
  const train::ParameterCount count = train::count_parameters(input.model, size);
  const auto positions = static_cast<double>(size.seq * size.hidden);
  const double elements = count.matrices / input.tp + positions + count.vectors;
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

// Says why so many ranks have no steps of the scheme, or none that are not those of ddp.
std::optional<std::string> reason_against(const ddp::StepInput& input, ddp::Scheme scheme) {
  if (scheme == ddp::Scheme::ddp) return {};
  if (input.pp > 1 && scheme == ddp::Scheme::fsdp2) {
    return fmt::format("pp {} has ddp or zero1, not fsdp2", input.pp);
  }
  if (input.dp() == 1) return fmt::format("dp 1 has ddp, not {}", name_of(scheme));
  if (input.is_mesh && scheme == ddp::Scheme::fsdp2) {
    return fmt::format("tp {} has ddp or zero1, not fsdp2", input.tp);
  }
  return {};
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

// The kinds of a plan, each of which computes more again than the one before.
constexpr std::array kMoreAndMore = {train::Recomputation::Kind::none,
                                     train::Recomputation::Kind::selective,
                                     train::Recomputation::Kind::all};

// The one that computes least again first.
std::vector<train::Recomputation> read_recomputations(const Settings& settings) {
  std::vector<train::Recomputation> found;
  for (const std::string_view text : settings.list("checkpoint")) {
    found.push_back(train::parse_recomputation(text));
    const train::Recomputation::Kind kind = found.back().kind;
    if (std::ranges::find(kMoreAndMore, kind) != kMoreAndMore.end()) continue;
    throw UsageError(
        "KB-U012",
        "--set checkpoint={}: a plan's layers are alike: none, selective or all of each "
        "is computed again",
        text);
  }
  std::ranges::sort(found, {}, [](const train::Recomputation& each) {
    return std::ranges::find(kMoreAndMore, each.kind);
  });
  return found;
}

// The fewest first.
std::vector<std::int64_t> read_microbatches(const Settings& settings) {
  std::vector<std::int64_t> microbatches = settings.integers("microbatches", 1, train::kMost);
  std::ranges::sort(microbatches);
  return microbatches;
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
          .microbatches = read_microbatches(settings),
          .recomputations = read_recomputations(settings)};
}

// Says why the pipeline's numbers do not fit its schedule, or its halves what is computed again.
std::optional<std::string> reason_against_schedule(const ddp::StepInput& input) {
  const std::string_view schedule = name_of(*input.schedule);
  try {
    const bool splits = ddp::splits_backward(ddp::list_actions(input));
    if (!splits || input.recomputation.kind == train::Recomputation::Kind::none) return {};
    return fmt::format("{} of pp {} has halves of backward, and so no checkpoint={}", schedule,
                       input.pp, name_of(input.recomputation));
  } catch (const CollectiveError&) {
    return fmt::format("{} of pp {} does not take {} micro-batches", schedule, input.pp,
                       input.microbatches);
  }
}

// Says why stages, of each rank as many as its schedule wants, do not share the model.
std::optional<std::string> reason_against_stages(const ddp::StepInput& input) {
  if (input.microbatches == 1) return fmt::format("pp {} wants several micro-batches", input.pp);
  if (input.size.layers % input.stages() == 0) return {};
  return fmt::format("{} stages, of {} with pp {}, do not divide layers, which is {}",
                     input.stages(), name_of(*input.schedule), input.pp, input.size.layers);
}

std::optional<std::string> reason_against_microbatches(const ddp::StepInput& input) {
  if (input.size.batch % input.microbatches != 0) {
    return fmt::format(
        "{} micro-batches do not divide the samples of a rank with tp {} x pp {}, "
        "which are {}",
        input.microbatches, input.tp, input.pp, input.size.batch);
  }
  const auto why = train::describe_unshared(input.microbatch(), input.tp, input.parallel);
  if (!why) return {};
  return fmt::format("{}, with {} micro-batches and pp {}", *why, input.microbatches, input.pp);
}

class Lister {
 public:
  Lister(const Question& question, const Settings& settings, const Topology& topology)
      : question_(question), settings_(settings), topology_(topology), axes_(read_axes(settings)) {}

  Candidates run() {
    for (const std::int64_t pp : axes_.stages) add_ranks_of(static_cast<int>(pp));
    return std::move(found_);
  }

 private:
  // Returns true if there is a reason, which is kept once.
  bool is_refused(std::vector<std::string>& reasons, std::optional<std::string> why) {
    if (!why) return false;
    if (std::ranges::find(reasons, *why) == reasons.end()) reasons.push_back(std::move(*why));
    return true;
  }

  void add_ranks_of(int pp) {
    if (question_.world % pp != 0) {
      is_refused(found_.left_out,
                 fmt::format("pp {} does not divide world, which is {}", pp, question_.world));
      return;
    }
    if (pp > 1 && !settings_.is_set("pp") && question_.world > pp * kMostOfStage) {
      is_refused(found_.impossible, fmt::format("pp {}, unless it is given: a stage has {} ranks",
                                                pp, question_.world / pp));
      return;
    }
    for (int tp = 1; tp * pp <= question_.world; ++tp) {
      if (question_.world % (tp * pp) == 0) add_microbatches(input_of(question_, tp, pp));
    }
  }

  void add_microbatches(ddp::StepInput input) {
    if (is_refused(found_.impossible, reason_against(input))) return;
    input.size.batch /= input.dp();
    for (const std::int64_t microbatches : axes_.microbatches) {
      input.microbatches = static_cast<int>(microbatches);
      if (is_refused(found_.left_out, reason_against_microbatches(input))) continue;
      input.on = train::read_pes(settings_, topology_, input.microbatch().tokens());
      input.pp == 1 ? add_schemes(input) : add_pipelines(input);
    }
  }

  void add_pipelines(ddp::StepInput input) {
    for (const NamedLists* const schedule : axes_.schedules) {
      input.schedule = schedule;
      input.chunks = schedule->stages_per_rank(axes_.chunks);
      if (!is_refused(found_.left_out, reason_against_stages(input))) add_schemes(input);
    }
  }

  void add_schemes(ddp::StepInput input) {
    for (const ddp::Scheme scheme : axes_.schemes) {
      if (is_refused(found_.left_out, reason_against(input, scheme))) continue;
      input.scheme = scheme;
      add_family(input);
    }
  }

  // The first of the plans that are alike but for their cap and recomputation.
  Place next_place(const ddp::StepInput& input) {
    const int microbatches = input.pp == 1 ? 0 : input.microbatches;
    const auto number = static_cast<int>(families_.size());
    const auto [of, is_new] = families_.try_emplace(
        {input.tp, input.pp, input.schedule, microbatches, input.scheme}, Place{.family = number});
    if (!is_new) ++of->second.cut;
    return of->second;
  }

  void add_family(ddp::StepInput input) {
    std::vector<Plan>& plans = found_.plans;
    Place place = next_place(input);
    for (const double cap : different_caps(axes_.caps, input)) {
      input.bucket_cap_mb = cap;
      place.recompute = 0;
      for (const train::Recomputation& recomputation : axes_.recomputations) {
        input.recomputation = recomputation;
        if (input.pp > 1 && is_refused(found_.left_out, reason_against_schedule(input))) continue;
        plans.push_back({.input = input, .place = place});
        ++place.recompute;
      }
      ++place.cap;
    }
  }

  const Question& question_;
  const Settings& settings_;
  const Topology& topology_;
  const Axes axes_;
  // The latest place of a family, by what its plans have in common.
  std::map<std::tuple<int, int, const NamedLists*, int, ddp::Scheme>, Place> families_;
  Candidates found_;
};

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
  Candidates found = Lister(question, settings, topology).run();
  if (!found.plans.empty()) return found;
  std::ranges::move(found.left_out, std::back_inserter(found.impossible));
  throw UsageError("KB-U012", "plan: no plan has {} ranks and {} samples: {}", question.world,
                   question.model.size.batch, fmt::join(found.impossible, "; "));
}

}  // namespace kernbench::benches::plan
