#include "benches/pipeline/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/table.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/pipeline/gantt.h"
#include "benches/pipeline/measured_pipeline.h"
#include "benches/pipeline/named_schedules.h"
#include "benches/train/model_settings.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/input_file.h"

namespace kernbench::benches::pipeline {

namespace {

namespace pipelining = distributed::pipelining;
using pipelining::ActionLists;
using pipelining::PipelineSize;

constexpr std::string_view kActions = "actions";  // a schedule of the user's

constexpr std::array kStepColumns = {
    TableColumn{"schedule", "", -14, "schedule"},
    TableColumn{"ranks", "", 5, "ranks"},
    TableColumn{"stages", "", 6, "stages"},
    TableColumn{"micro", "batches", 7, "microbatches"},
    TableColumn{"F", "(us)", 7, "forward_ns", 1e-3, 1},
    TableColumn{"B", "(us)", 7, "backward_ns", 1e-3, 1},
    TableColumn{"I", "(us)", 7, "input_ns", 1e-3, 1},
    TableColumn{"W", "(us)", 7, "weight_ns", 1e-3, 1},
    TableColumn{"step", "(us)", 9, "step_ns", 1e-3, 1},
    TableColumn{"ideal", "(us)", 9, "ideal_ns", 1e-3, 1},
    TableColumn{"bubble", "of ideal", 8, "bubble_of_ideal", 100, 1},
    TableColumn{"formula", "(%)", 7, "formula_of_ideal", 100, 1},
    TableColumn{"bubble", "of step", 8, "bubble_of_step", 100, 1},
    TableColumn{"formula", "(%)", 7, "formula_of_step", 100, 1},
};

constexpr std::array kRankColumns = {
    TableColumn{"schedule", "", -14, "schedule"},
    TableColumn{"micro", "batches", 7, "microbatches"},
    TableColumn{"rank", "", 4, "rank"},
    TableColumn{"stages", "", -10, "stages_of_rank"},
    TableColumn{"computing", "(us)", 11, "computing_ns", 1e-3, 3},
    TableColumn{"idle", "(%)", 6, "idle", 100, 1},
    TableColumn{"peak", "forwards", 8, "peak_forwards"},
    TableColumn{"without", "weights", 8, "peak_weights"},
    TableColumn{"peak", "(B)", 11, "peak_bytes"},
    TableColumn{"activations", "(B)", 11, "peak_activation_bytes"},
    TableColumn{"gradients", "(B)", 11, "peak_gradient_bytes"},
};

// The user's schedule, which has messages or not; its numbers are those of its actions.
PipelineInput read_actions(PipelineInput input, const std::string& path) {
  input.schedule = kActions;
  input.lists = pipelining::parse_actions(read_input_file(path, train::kMost));
  input.size = {.stages = 0, .ranks = static_cast<int>(input.lists.size()), .microbatches = 0};
  for (const auto& list : input.lists) {
    for (const pipelining::Action& action : list) {
      input.size.stages = std::max(input.size.stages, action.stage + 1);
      input.size.microbatches = std::max(input.size.microbatches, action.microbatch + 1);
    }
  }
  return input;
}

// A schedule of the user's has its own numbers.
void check_beside_actions(const Settings& settings) {
  if (!settings.is_set("actions") || settings.is_set("schedule")) return;
  for (const std::string_view key : {"stages", "chunks", "microbatches"}) {
    if (!settings.is_set(key)) continue;
    throw UsageError("KB-U012",
                     "--set {}={}: the file of `actions` says it; give `schedule` as well to "
                     "compare it with others of this size",
                     key, settings.text(key));
  }
}

// A point that does not fit its schedule is left out, with the reason in `left_out`.
std::vector<PipelineInput> read_points(const Settings& settings, const Topology& topology,
                                       std::vector<std::string>& left_out) {
  const train::ModelInput read = train::read_model("pipeline", train::ModelPart::blocks,
                                                   train::ModelKind::gpt, settings, topology);
  PipelineInput input{.model = read.size, .dtype = read.dtype, .on = read.on};
  check_beside_actions(settings);
  std::vector<PipelineInput> points;
  if (settings.is_set("actions")) points.push_back(read_actions(input, settings.text("actions")));
  const auto chunks = static_cast<int>(settings.integer("chunks", 2, train::kMost));
  for (const NamedLists& schedule : settings.choices("schedule", kSchedules)) {
    if (settings.is_set("actions") && !settings.is_set("schedule")) break;
    for (const std::int64_t ranks : settings.integers("stages", 2, train::kMostRanks)) {
      for (const std::int64_t microbatches : settings.integers("microbatches", 1, train::kMost)) {
        input.schedule = schedule.name;
        input.size.ranks = static_cast<int>(ranks);
        input.size.stages = input.size.ranks * schedule.stages_per_rank(chunks);
        input.size.microbatches = static_cast<int>(microbatches);
        try {
          input.lists = schedule.lists(input.size);
          points.push_back(input);
        } catch (const CollectiveError& error) {
          left_out.emplace_back(error.what());
        }
      }
    }
  }
  if (points.empty()) throw UsageError("KB-U012", "no schedule fits: {}", left_out.front());
  for (const PipelineInput& point : points) {
    if (point.model.layers % point.size.stages == 0) continue;
    throw UsageError("KB-U012", "--set layers: {} layers are not divided by {} stages of {}",
                     point.model.layers, point.size.stages, point.schedule);
  }
  return points;
}

Row point_row(const PipelineInput& input, std::string_view table) {
  return Row()
      .set("table", table)
      .set("schedule", input.schedule)
      .set("ranks", input.size.ranks)
      .set("stages", input.size.stages)
      .set("microbatches", input.size.microbatches);
}

bool holds_for(Holds holds, const PipelineSize& size) {
  switch (holds) {
    case Holds::always:
      return true;
    case Holds::from_p:
      return size.microbatches >= size.ranks;
    case Holds::from_2p:
      return size.microbatches >= 2 * size.ranks - 1;
    case Holds::multiples_of_p:
      return size.microbatches % size.ranks == 0;
  }
  return false;
}

// A schedule's bubble over the time without one; nothing for one of the user's, which has formulas
// of its own.
std::optional<double> formula_of(const PipelineInput& input, const StageTimes& times) {
  const auto* const named = std::ranges::find(kSchedules, input.schedule, &NamedLists::name);
  if (named == kSchedules.end() || named->bubble == nullptr) return {};
  if (!holds_for(named->holds, input.size) || whole(times) == 0) return {};
  const double work = static_cast<double>(input.size.microbatches) *
                      static_cast<double>(input.size.stages / input.size.ranks);
  return (input.size.ranks - 1) / work * (named->bubble(times) / whole(times));
}

// The time that the busiest rank's computations take.
Time ideal_of(const MeasuredPipeline& measured) {
  Time longest{0};
  for (const MeasuredRank& rank : measured.ranks) {
    Time sum{0};
    for (const pipelining::ActionTime& each : rank.actions) sum += each.duration();
    longest = std::max(longest, sum);
  }
  return longest;
}

// Megatron's paper has the bubble as a share of the time without one, such as (p - 1) / (v m), the
// paper of zero bubbles as a share of the step, such as (p - 1) / (v m + p - 1).
Row step_row(const PipelineInput& input, const MeasuredPipeline& measured) {
  const double step = to_ns(measured.step);
  const double ideal = to_ns(ideal_of(measured));
  const auto known = [](bool is_known, double value) {
    return is_known ? std::optional(value) : std::nullopt;
  };
  const auto time_of = [&](double time) { return known(time > 0, time); };
  const std::optional<double> formula = formula_of(input, measured.times);
  return point_row(input, "step")
      .set("forward_ns", measured.times.forward)
      .set("backward_ns", time_of(measured.times.backward))
      .set("input_ns", time_of(measured.times.input))
      .set("weight_ns", time_of(measured.times.weight))
      .set("step_ns", step)
      .set("ideal_ns", ideal)
      .set("bubble_of_ideal", known(ideal > 0, (step - ideal) / ideal))
      .set("formula_of_ideal", formula)
      .set("bubble_of_step", known(step > 0, (step - ideal) / step))
      .set("formula_of_step", formula ? std::optional(*formula / (1 + *formula)) : std::nullopt);
}

std::vector<Row> simulate(PointContext& point, const PipelineInput& input) {
  const MeasuredPipeline measured =
      measure_pipeline(point, input, with_sips(point.bench().topology(), input.size.ranks));
  std::vector<Row> rows{step_row(input, measured)};
  const double step = to_ns(measured.step);
  for (std::size_t rank = 0; rank < measured.ranks.size(); ++rank) {
    const MeasuredRank& own = measured.ranks[rank];
    rows.push_back(point_row(input, "rank")
                       .set("rank", rank)
                       .set("stages_of_rank", fmt::format("{}", fmt::join(own.stages, ",")))
                       .set("computing_ns", to_ns(own.computing))
                       .set("idle", step == 0 ? 0 : 1 - to_ns(own.computing) / step)
                       .set("peak_forwards", own.peak_forwards)
                       .set("peak_weights", own.peak_weights)
                       .set("peak_bytes", own.peak)
                       .set("peak_activation_bytes", own.peak_activations)
                       .set("peak_gradient_bytes", own.peak_gradients));
  }
  const bool is_drawn = !point.bench().run().output_folder.empty();
  for (std::size_t rank = 0; is_drawn && rank < measured.ranks.size(); ++rank) {
    for (const pipelining::ActionTime& each : measured.ranks[rank].actions) {
      rows.push_back(point_row(input, "action")
                         .set("rank", rank)
                         .set("action", to_string(each.action))
                         .set("begin_ns", to_ns(each.begin - measured.begin))
                         .set("end_ns", to_ns(each.end - measured.begin)));
    }
  }
  return rows;
}

void print_table(Bench& bench, std::span<const TableColumn> columns, std::string_view table,
                 const std::vector<Row>& rows) {
  bench.print("#\n" + table_head(columns));
  for (const Row& row : rows) {
    if (text_in(row, "table") != table) continue;
    bench.print(table_line(columns, row, bench.run().console));
  }
}

void run_pipeline(Bench& bench) {
  check_rank_is_sip(bench);
  check_ranks_begin_together(bench);
  std::vector<std::string> left_out;
  const std::vector<PipelineInput> points =
      read_points(bench.settings(), bench.topology(), left_out);
  const train::LanguageModelSize& model = points.front().model;
  bench.note("model", fmt::format("{} of GPT-2's blocks, hidden {}, {} tokens of a micro-batch, {}",
                                  model.layers, model.hidden, model.tokens(),
                                  name_of(points.front().dtype)));
  bench.note("ranks", "each point has as many of these SIPs as ranks");
  bench.note("device", train::describe(points.front().on, bench.topology()));
  bench.note(
      "bubble",
      "the time beyond the busiest rank's F, B, I and W (ideal), over that, and over the step");
  bench.note("F, B, I, W",
             "a stage's forward, and backward: whole, or for its input and for its weights");
  for (const std::string& why : left_out) bench.note("left out", why);
  Sweep sweep(bench, "pipeline");
  for (const PipelineInput& input : points) {
    sweep.add(fmt::format("{} stages {} microbatches {}", input.schedule, input.size.stages,
                          input.size.microbatches),
              [input](PointContext& point) { return simulate(point, input); });
  }
  const std::vector<Row> rows = sweep.run();
  print_table(bench, kRankColumns, "rank", rows);
  print_table(bench, kStepColumns, "step", rows);
  figure::FigureArtifacts(bench).add("schedules", draw_gantt(rows, bench.topology().name));
}

}  // namespace

BenchInfo pipeline_bench() {
  std::vector<SettingInfo> settings = train::model_settings(train::ModelPart::blocks, "8", "1");
  settings.insert(
      settings.begin(),
      {{"schedule", "gpipe,1f1b,interleaved,zb_h1,zbv",
        "gpipe, 1f1b, eager_1f1b, interleaved, looped_bfs, zb_h1, zb_h2, interleaved_zb, zbv, "
        "dual_pipe_v, a "
        "list",
        SettingType::names},
       {"stages", "4", "ranks, each with a stage, or with several, a list", SettingType::integers},
       {"chunks", "2", "stages of a rank, for interleaved, interleaved_zb and looped_bfs",
        SettingType::integer},
       {"microbatches", "8", "of a step, a list", SettingType::integers},
       {"actions", "", "a file of torch's actions, a row for each rank: a schedule",
        SettingType::path}});
  return {"pipeline",
          "a step of a model in stages: bubble and memory of each schedule",
          std::move(settings),
          run_pipeline,
          nullptr,
          BenchRanks::own};
}

}  // namespace kernbench::benches::pipeline
