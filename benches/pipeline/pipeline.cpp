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
#include "benches/pipeline/measured_pipeline.h"
#include "benches/train/model_settings.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/input_file.h"

namespace kernbench::benches::pipeline {

namespace {

namespace pipelining = distributed::pipelining;
using pipelining::ActionLists;
using pipelining::PipelineSize;

constexpr std::string_view kActions = "actions";  // a schedule of the user's

enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved, looped_bfs };
constexpr std::array kSchedules = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                   ScheduleKind::interleaved, ScheduleKind::looped_bfs};

std::string_view name_of(ScheduleKind kind) {
  constexpr std::array<std::string_view, kSchedules.size()> kNames = {"gpipe", "1f1b",
                                                                      "interleaved", "looped_bfs"};
  return kNames.at(static_cast<std::size_t>(kind));
}

bool has_chunks(ScheduleKind kind) {
  return kind == ScheduleKind::interleaved || kind == ScheduleKind::looped_bfs;
}

ActionLists lists_of(ScheduleKind kind, const PipelineSize& size) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return gpipe(size);
    case ScheduleKind::one_f_one_b:
      return one_f_one_b(size);
    case ScheduleKind::interleaved:
      return interleaved(size);
    case ScheduleKind::looped_bfs:
      return looped_bfs(size);
  }
  return {};
}

constexpr std::array kStepColumns = {
    TableColumn{"schedule", "", -11, "schedule"},
    TableColumn{"ranks", "", 5, "ranks"},
    TableColumn{"stages", "", 6, "stages"},
    TableColumn{"micro", "batches", 7, "microbatches"},
    TableColumn{"step", "(us)", 11, "step_ns", 1e-3, 3},
    TableColumn{"ideal", "(us)", 11, "ideal_ns", 1e-3, 3},
    TableColumn{"bubble", "of ideal", 8, "bubble_of_ideal", 100, 1},
    TableColumn{"formula", "(%)", 7, "formula_of_ideal", 100, 1},
    TableColumn{"bubble", "of step", 8, "bubble_of_step", 100, 1},
    TableColumn{"formula", "(%)", 7, "formula_of_step", 100, 1},
};

constexpr std::array kRankColumns = {
    TableColumn{"schedule", "", -11, "schedule"},
    TableColumn{"micro", "batches", 7, "microbatches"},
    TableColumn{"rank", "", 4, "rank"},
    TableColumn{"stages", "", -10, "stages_of_rank"},
    TableColumn{"computing", "(us)", 11, "computing_ns", 1e-3, 3},
    TableColumn{"idle", "(%)", 6, "idle", 100, 1},
    TableColumn{"peak", "forwards", 8, "peak_forwards"},
    TableColumn{"peak", "(B)", 11, "peak_bytes"},
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

std::vector<PipelineInput> read_points(const Settings& settings, const Topology& topology) {
  const train::ModelInput read = train::read_model("pipeline", train::ModelPart::blocks,
                                                   train::ModelKind::gpt, settings, topology);
  PipelineInput input{.model = read.size, .dtype = read.dtype, .on = read.on};
  check_beside_actions(settings);
  std::vector<PipelineInput> points;
  if (settings.is_set("actions")) points.push_back(read_actions(input, settings.text("actions")));
  const auto chunks = static_cast<int>(settings.integer("chunks", 2, train::kMost));
  for (const ScheduleKind kind : settings.choices("schedule", kSchedules)) {
    if (settings.is_set("actions") && !settings.is_set("schedule")) break;
    for (const std::int64_t ranks : settings.integers("stages", 2, train::kMostRanks)) {
      for (const std::int64_t microbatches : settings.integers("microbatches", 1, train::kMost)) {
        input.schedule = name_of(kind);
        input.size.ranks = static_cast<int>(ranks);
        input.size.stages = input.size.ranks * (has_chunks(kind) ? chunks : 1);
        input.size.microbatches = static_cast<int>(microbatches);
        input.lists = lists_of(kind, input.size);
        points.push_back(input);
      }
    }
  }
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

// Megatron's paper has the bubble as a share of the time without one, (p - 1) / (v m), the paper of
// zero bubbles as a share of the step, (p - 1) / (v m + p - 1).
Row step_row(const PipelineInput& input, const MeasuredPipeline& measured) {
  const double step = to_ns(measured.step);
  const auto busiest = std::ranges::max_element(measured.ranks, {}, &MeasuredRank::computing);
  const double ideal = to_ns(busiest->computing);
  const double others = input.size.ranks - 1;
  const double work = static_cast<double>(input.size.microbatches) *
                      static_cast<double>(input.size.stages / input.size.ranks);
  const auto known = [](bool is_known, double value) {
    return is_known ? std::optional(value) : std::nullopt;
  };
  const bool has_formula = input.schedule != kActions;  // one of the user's has formulas of its own
  return point_row(input, "step")
      .set("step_ns", step)
      .set("ideal_ns", ideal)
      .set("bubble_of_ideal", known(ideal > 0, (step - ideal) / ideal))
      .set("formula_of_ideal", known(has_formula, others / work))
      .set("bubble_of_step", known(step > 0, (step - ideal) / step))
      .set("formula_of_step", known(has_formula, others / (work + others)));
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
                       .set("peak_bytes", own.peak));
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
  const std::vector<PipelineInput> points = read_points(bench.settings(), bench.topology());
  const train::LanguageModelSize& model = points.front().model;
  bench.note("model", fmt::format("{} of GPT-2's blocks, hidden {}, {} tokens of a micro-batch, {}",
                                  model.layers, model.hidden, model.tokens(),
                                  name_of(points.front().dtype)));
  bench.note("ranks", "each point has as many of these SIPs as ranks");
  bench.note("device", train::describe(points.front().on, bench.topology()));
  bench.note(
      "bubble",
      "the time beyond what the busiest rank computes (ideal), over that, and over the step");
  Sweep sweep(bench, "pipeline");
  for (const PipelineInput& input : points) {
    sweep.add(fmt::format("{} stages {} microbatches {}", input.schedule, input.size.stages,
                          input.size.microbatches),
              [input](PointContext& point) { return simulate(point, input); });
  }
  const std::vector<Row> rows = sweep.run();
  print_table(bench, kRankColumns, "rank", rows);
  print_table(bench, kStepColumns, "step", rows);
}

}  // namespace

BenchInfo pipeline_bench() {
  std::vector<SettingInfo> settings = train::model_settings(train::ModelPart::blocks, "8", "1");
  settings.insert(
      settings.begin(),
      {{"schedule", "gpipe,1f1b,interleaved", "gpipe, 1f1b, interleaved, looped_bfs, a list",
        SettingType::names},
       {"stages", "4", "ranks, each with a stage, or with several, a list", SettingType::integers},
       {"chunks", "2", "stages of a rank, for interleaved and looped_bfs", SettingType::integer},
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
