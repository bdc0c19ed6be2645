#include "benches/ddp/ddp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/table.h"
#include "benches/ddp/axes.h"
#include "benches/ddp/measured_step.h"
#include "benches/ddp/mesh.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/train/configuration.h"
#include "benches/train/model_settings.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::ddp {

namespace {

constexpr train::UnnamedModel kUnnamed{
    .size = {.layers = 2, .hidden = 256, .heads = 4, .vocab = 1000, .seq = 64, .batch = 64},
    .most_seq = train::kMost};
constexpr int kLinesInRow = 3;  // of a legend

constexpr std::array kStepColumns = {
    TableColumn{"scheme", "", -7, "scheme"},
    TableColumn{"world", "", 5, "world"},
    TableColumn{"cap", "(MiB)", 6, "bucket_cap_mb"},
    TableColumn{"buckets", "", 7, "buckets"},
    TableColumn{"gradients", "(B)", 9, "bytes"},
    TableColumn{"first step", "(us)", 10, "first_step_ns", 1e-3, 3},
    TableColumn{"step", "(us)", 10, "step_ns", 1e-3, 3},
    TableColumn{"bound", "(us)", 10, "bound_ns", 1e-3, 3},
    TableColumn{"ratio", "", 6, "ratio", 1, 2},
    TableColumn{"compute", "(%)", 7, "compute_only", 100, 1},
    TableColumn{"both", "(%)", 6, "both", 100, 1},
    TableColumn{"exposed", "(%)", 7, "exposed", 100, 1},
    TableColumn{"idle", "(%)", 5, "idle", 100, 1},
    TableColumn{"exposed", "(us)", 9, "exposed_ns", 1e-3, 3},
};

constexpr std::array kBucketColumns = {
    TableColumn{"scheme", "", -7, "scheme"},
    TableColumn{"world", "", 6, "world"},
    TableColumn{"cap", "(MiB)", 8, "bucket_cap_mb"},
    TableColumn{"bucket", "", 7, "bucket"},
    TableColumn{"collective", "", -15, "collective"},
    TableColumn{"size", "(B)", 11, "bytes"},
    TableColumn{"ready", "(us)", 11, "ready_ns", 1e-3, 3},
    TableColumn{"started", "(us)", 11, "started_ns", 1e-3, 3},
    TableColumn{"ended", "(us)", 11, "ended_ns", 1e-3, 3},
    TableColumn{"last", "(us)", 11, "last_ended_ns", 1e-3, 3},
    TableColumn{"bound", "(us)", 11, "bound_ns", 1e-3, 3},
    TableColumn{"ratio", "", 6, "ratio", 1, 2},
    TableColumn{"hidden", "(us)", 11, "hidden_ns", 1e-3, 3},
    TableColumn{"exposed", "(us)", 11, "exposed_ns", 1e-3, 3},
    TableColumn{"parameters", "", 0, "first_and_last"},
};

constexpr std::array kMeshColumns = {
    TableColumn{"scheme", "", -7, "scheme"},
    TableColumn{"tp", "", 3, "tp"},
    TableColumn{"dp", "", 5, "dp"},
    TableColumn{"cap", "(MiB)", 6, "bucket_cap_mb"},
    TableColumn{"step", "(us)", 12, "mesh_step_ns", 1e-3, 1},
    TableColumn{"MFU", "(%)", 5, "mfu", 100, 1},
    TableColumn{"tp time", "(us)", 11, "tp_ns", 1e-3, 1},
    TableColumn{"exposed", "(us)", 11, "tp_exposed_ns", 1e-3, 1},
    TableColumn{"sent", "(MB)", 10, "tp_bytes", 1e-6, 3},
    TableColumn{"dp time", "(us)", 11, "dp_ns", 1e-3, 1},
    TableColumn{"exposed", "(us)", 11, "dp_exposed_ns", 1e-3, 1},
    TableColumn{"sent", "(MB)", 10, "dp_bytes", 1e-6, 3},
};

// A configuration has two layers unless others are given, since the host takes long for all.
train::ConfiguredModel read_model(const Settings& settings) {
  train::ConfiguredModel model = train::read_model(settings, kUnnamed);
  if (!model.has_given_layers) model.size.layers = kUnnamed.size.layers;
  return model;
}

// Throws UsageError KB-U012 for passes that a step cannot have.
void check_passes(const StepInput& input) {
  if (input.size.batch % input.microbatches != 0) {
    throw UsageError("KB-U012", "--set microbatches={}: it does not divide batch, which is {}",
                     input.microbatches, input.size.batch);
  }
  train::check_layers(input.recomputation, input.size.layers);
  if (input.recomputation.kind != train::Recomputation::Kind::budget) return;
  throw UsageError("KB-U012",
                   "--set checkpoint={}: none, all, selective or a number of layers is wanted; "
                   "bench train has budgets",
                   name_of(input.recomputation));
}

std::vector<StepInput> read_points(const Settings& settings, const train::ConfiguredModel& model,
                                   const Topology& topology) {
  train::check_size("ddp", model.kind, model.size);
  StepInput input{
      .model = model.kind,
      .size = model.size,
      .dtype = settings.choice("dtype", kDTypes),
      .is_mesh = settings.is_set("tp"),
      .parallel = {.model = model.kind, .sequence_parallel = settings.flag("sequence_parallel")},
      .microbatches = static_cast<int>(settings.integer("microbatches", 1, train::kMost)),
      .recomputation = train::read_recomputation(settings)};
  check_passes(input);
  input.on = train::read_pes(settings, topology, input.microbatch().tokens());
  const std::vector<Scheme> schemes = read_schemes(settings);
  const std::vector<double> caps = read_caps(settings);
  std::vector<StepInput> points;
  for (const Scheme scheme : schemes) {
    for (const std::int64_t world : settings.integers("world", 2, train::kMostRanks)) {
      for (const std::int64_t tp : settings.integers("tp", 1, train::kMostRanks)) {
        for (const double cap : caps) {
          input.scheme = scheme;
          input.world = static_cast<int>(world);
          input.tp = static_cast<int>(tp);
          input.bucket_cap_mb = cap;
          check_mesh(input);
          points.push_back(input);
        }
      }
    }
  }
  return points;
}

Row point_row(const StepInput& input, std::string_view table) {
  Row row;
  row.set("table", table)
      .set("scheme", name_of(input.scheme))
      .set("world", input.world)
      .set("bucket_cap_mb", input.bucket_cap_mb);
  if (input.microbatches > 1) row.set("microbatches", input.microbatches);
  if (input.recomputation.kind != train::Recomputation::Kind::none) {
    row.set("checkpoint", name_of(input.recomputation));
  }
  if (!input.is_mesh) return row;
  return row.set("tp", input.tp)
      .set("dp", input.dp())
      .set("sequence_parallel", input.parallel.sequence_parallel);
}

// 1 where nothing takes time.
double compute_ratio(Time time, Time bound) {
  return time == bound ? 1 : to_ns(time) / to_ns(bound);
}

Row step_row(const StepInput& input, const MeasuredStep& measured) {
  const nn::parallel::StepTimes& step = measured.later;
  const double whole = to_ns(step.end - step.begin);
  Bytes bytes = 0;  // of gradients
  int buckets = 0;
  for (const auto& bucket : step.buckets) {
    if (collective_name(input.scheme, bucket) == "all_gather") continue;
    bytes += bucket.bytes;
    ++buckets;
  }
  return point_row(input, "step")
      .set("buckets", buckets)
      .set("bytes", bytes)
      .set("first_step_ns", to_ns(measured.first.end - measured.first.begin))
      .set("first_exposed_ns", to_ns(measured.first.exposed))
      .set("step_ns", whole)
      .set("bound_ns", to_ns(measured.bound))
      .set("ratio", compute_ratio(measured.time, measured.bound))
      .set("compute_only_ns", to_ns(step.compute_only))
      .set("both_ns", to_ns(step.both))
      .set("exposed_ns", to_ns(step.exposed))
      .set("idle_ns", to_ns(step.idle))
      .set("compute_only", to_ns(step.compute_only) / whole)
      .set("both", to_ns(step.both) / whole)
      .set("exposed", to_ns(step.exposed) / whole)
      .set("idle", to_ns(step.idle) / whole);
}

// "5: head.weight to blocks.3.fc2.weight"
std::string first_and_last(const std::vector<std::string>& names) {
  if (names.size() == 1) return "1: " + names.front();
  return fmt::format("{}: {} to {}", names.size(), names.front(), names.back());
}

Row bucket_row(const StepInput& input, const nn::parallel::BucketTimes& bucket, Time begin,
               Time last_ended, const BucketBound& bound) {
  return point_row(input, "bucket")
      .set("bucket", bucket.bucket)
      .set("name", bucket.name)
      .set("collective", collective_name(input.scheme, bucket))
      .set("bytes", bucket.bytes)
      .set("ready_ns", to_ns(bucket.ready - begin))
      .set("started_ns", to_ns(bucket.started - begin))
      .set("ended_ns", to_ns(bucket.ended - begin))
      .set("last_ended_ns", to_ns(last_ended - begin))
      .set("bound_ns", to_ns(bound.end - begin))
      .set("ratio", compute_ratio(last_ended - bound.start, bound.end - bound.start))
      .set("hidden_ns", to_ns(bucket.hidden))
      .set("exposed_ns", to_ns(bucket.exposed))
      .set("first_and_last", first_and_last(bucket.parameters))
      .set("parameters", fmt::format("{}", fmt::join(bucket.parameters, " ")));
}

// A collective that ends before its bound shows a fault of the simulator, so it fails the point.
std::vector<Row> simulate(PointContext& point, const StepInput& input) {
  const MeasuredStep measured =
      measure_step(point, input, with_sips(point.bench().topology(), input.world));
  const nn::parallel::StepTimes& step = measured.later;
  std::vector<Row> rows{step_row(input, measured)};
  if (input.is_mesh) {
    rows.push_back(mesh_row(point_row(input, "mesh"), measured, point.bench().topology()));
  }
  for (std::size_t i = 0; i < step.buckets.size(); ++i) {
    rows.push_back(
        bucket_row(input, step.buckets[i], step.begin, measured.last_ended[i], measured.bounds[i]));
    point.check(measured.keeps(measured.last_ended[i], measured.bounds[i].end));
  }
  point.check(measured.keeps(measured.time, measured.bound));
  return rows;
}

std::vector<Row> select_rows(const std::vector<Row>& rows, std::string_view table) {
  std::vector<Row> found;
  for (const Row& row : rows) {
    if (text_in(row, "table") == table) found.push_back(row);
  }
  return found;
}

void print_tables(Bench& bench, std::span<const TableColumn> columns, std::size_t keys,
                  const std::vector<Row>& rows) {
  for (const auto& table : fold(columns, keys)) {
    bench.print("#\n" + table_head(table));
    for (const Row& row : rows) bench.print(table_line(table, row, bench.run().console));
  }
}

void add_artifacts(Bench& bench, const std::string& what, const std::vector<Row>& steps,
                   const std::vector<Row>& buckets) {
  if (bench.run().output_folder.empty()) return;
  bench.add_artifact("steps.csv", to_csv(steps));
  bench.add_artifact("buckets.csv", to_csv(buckets));
  std::vector<std::string> schemes;  // a line of each
  std::vector<double> worlds;
  for (const Row& row : steps) {
    const double world = number_in(row, "world");
    const std::string& scheme = text_in(row, "scheme");
    if (!worlds.empty() && worlds.back() == world && schemes.back() == scheme) continue;
    schemes.push_back(scheme);
    worlds.push_back(world);
  }
  figure::FigureArtifacts figures(bench);
  figures.add("exposed",
              {.form = "exposed",
               .csv = "steps.csv",
               .title = "Communication that a training step does not hide",
               .subtitle = what,
               .note = "ddp closes its first bucket at 1 MiB, all others at the cap; "
                       "fsdp2 gathers blocks in groups of that size. Dashed: the first "
                       "step, in which buckets hide nothing.",
               .key_rows = (static_cast<int>(schemes.size()) + kLinesInRow - 1) / kLinesInRow,
               .values = {{"scheme", schemes}, {"world", worlds}}});
  const Row& best = *std::ranges::min_element(
      steps, {}, [](const Row& row) { return number_in(row, "exposed_ns"); });
  figures.add("step", {.form = "buckets",
                       .csv = "buckets.csv",
                       .title = fmt::format("The step that exposes least: {} on {} ranks, {} MiB",
                                            text_in(best, "scheme"), number_in(best, "world"),
                                            number_in(best, "bucket_cap_mb")),
                       .subtitle = what,
                       .note = "Grey: complete, and waiting for those before it.",
                       .values = {{"scheme", text_in(best, "scheme")},
                                  {"world", number_in(best, "world")},
                                  {"cap", number_in(best, "bucket_cap_mb")}}});
}

std::string describe_point(const StepInput& input) {
  const std::string mesh = input.is_mesh ? fmt::format(" tp {}", input.tp) : "";
  return fmt::format("{} world {}{} cap {}", name_of(input.scheme), input.world, mesh,
                     input.bucket_cap_mb);
}

// "tp 1 x dp 16, tp 8 x dp 2 (vocab padded to 1024), sequence parallel": each mesh once.
std::string describe_meshes(const std::vector<StepInput>& points) {
  std::vector<std::string> meshes;
  for (const StepInput& input : points) {
    std::string mesh = fmt::format("tp {} x dp {}", input.tp, input.dp());
    const std::int64_t vocab = train::parallel_vocab(input.size, input.tp);
    if (vocab != input.size.vocab) mesh += fmt::format(" (vocab padded to {})", vocab);
    if (std::ranges::find(meshes, mesh) == meshes.end()) meshes.push_back(std::move(mesh));
  }
  return fmt::format("{}{}; tensor parallel ranks are neighbours", fmt::join(meshes, ", "),
                     points[0].parallel.sequence_parallel ? ", sequence parallel" : "");
}

// "4 micro-batches of 2 samples, checkpoint all"; empty: one, of which nothing is computed again.
std::string describe_passes(const StepInput& input) {
  std::vector<std::string> parts;
  if (input.microbatches > 1) {
    parts.push_back(fmt::format("{} micro-batches of {} samples each", input.microbatches,
                                input.microbatch().batch));
  }
  if (input.recomputation.kind != train::Recomputation::Kind::none) {
    parts.push_back(fmt::format("checkpoint {}", name_of(input.recomputation)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void run_ddp(Bench& bench) {
  check_rank_is_sip(bench);
  check_ranks_begin_together(bench);
  const train::ConfiguredModel model = read_model(bench.settings());
  const std::vector<StepInput> points = read_points(bench.settings(), model, bench.topology());
  const std::string named = train::describe_layers(model);
  const std::string layers = named.empty()
                                 ? fmt::format("{}: {} layers, hidden {}", name_of(model.kind),
                                               model.size.layers, model.size.hidden)
                                 : named;
  const std::string what = fmt::format("{}, {} tokens per {}, {}, {}", layers, model.size.tokens(),
                                       points[0].is_mesh ? "tensor parallel group" : "rank",
                                       name_of(points[0].dtype), describe_sip(bench.topology()));
  bench.note("model", what);
  bench.note("ranks", "each point has `world` of these SIPs, a rank on each");
  if (points[0].is_mesh) bench.note("mesh", describe_meshes(points));
  bench.note("device", train::describe(points[0].on, bench.topology()));
  const std::string passes = describe_passes(points[0]);
  if (!passes.empty()) bench.note("passes", passes);
  Sweep sweep(bench, "ddp");
  for (const StepInput& input : points) {
    sweep.add(describe_point(input),
              [input](PointContext& point) { return simulate(point, input); });
  }
  const std::vector<Row> rows = sweep.run();
  const std::vector<Row> steps = select_rows(rows, "step");
  const std::vector<Row> buckets = select_rows(rows, "bucket");
  print_tables(bench, kBucketColumns, 4, buckets);
  print_tables(bench, kStepColumns, 3, steps);
  const std::vector<Row> meshes = select_rows(rows, "mesh");
  if (!meshes.empty()) print_tables(bench, kMeshColumns, 4, meshes);
  add_artifacts(bench, what, steps, buckets);
}

}  // namespace

BenchInfo ddp_bench() {
  std::vector<SettingInfo> settings = train::configured_settings(kUnnamed, "2");
  std::ranges::copy(train::step_settings("", "; else 1 of a config's, or 64"),
                    std::back_inserter(settings));
  settings.insert(
      settings.end(),
      {{"scheme", "ddp",
        "ddp, zero1 (Megatron's distributed optimizer), fsdp2 (fully_shard), a list",
        SettingType::names},
       {"world", "2", "ranks, a list", SettingType::integers},
       {"tp", "1",
        "neighbouring ranks that share a model by Megatron's layers, a list; world / tp are "
        "data parallel, by ddp or zero1; layers are torch's if it is not given",
        SettingType::integers},
       {"microbatches", "1", "into which a rank cuts its samples; gradients are sent with the last",
        SettingType::integer},
       {"checkpoint", "none",
        "computed again in backward: none, all, selective (all but products and attention), or a "
        "number of layers",
        SettingType::name},
       {"sequence_parallel", "false", "tensor parallel ranks share the tokens between their layers",
        SettingType::flag},
       {"bucket_cap_mb", "1,5,25", "bytes at which a bucket is closed, in MiB, a list",
        SettingType::names}});
  return {"ddp",
          "a data parallel training step: what of its communication each bucket size hides",
          std::move(settings),
          run_ddp,
          nullptr,
          BenchRanks::own};
}

}  // namespace kernbench::benches::ddp
