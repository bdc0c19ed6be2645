#include "benches/collectives/calibrate.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "benches/bench/bench.h"
#include "benches/bench/bench_run.h"
#include "benches/bench/table.h"
#include "benches/collectives/measured_collective.h"
#include "benches/collectives/published_times.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/input_file.h"

namespace kernbench::benches::collectives {

namespace {

constexpr Bytes kMaxCsvBytes = 1 << 20;
constexpr std::int64_t kMostRepetitions = 1000;

BlocksInput blocks_of(const MeasuredInput& input, const PublishedTime& published) {
  BlocksInput blocks = input.blocks;
  blocks.collective = published.collective;
  blocks.count = published.size / size_of(blocks.dtype) /
                 spec_of(published.collective).blocks_in_size(blocks.ranks);
  return blocks;
}

Row compare(PointContext& point, const MeasuredInput& input, double tolerance,
            const PublishedTime& published) {
  const Bench& bench = point.bench();
  const Measurement measured = simulate(point, bench.topology(), bench.ccl(), input, published);
  const double error = error_percent(measured.time, published);
  const CollectiveSpec& spec = spec_of(published.collective);
  const double factor = spec.factor.of(input.blocks.ranks);
  const Bytes bytes = blocks_of(input, published).bytes();
  point.check(std::abs(error) <= tolerance);
  return Row()
      .set("collective", spec.name)
      .set("bytes", published.size)
      .set("published_us", microseconds(published.time))
      .set("simulated_us", microseconds(measured.time))
      .set("error_percent", error)
      .set("published_busbw_gbs", factor * algbw_gbs(published.size, published.time))
      .set("simulated_busbw_gbs", factor * algbw_gbs(bytes, measured.time))
      .set("algorithm", measured.algorithm);
}

constexpr std::array kCalibrationColumns = {
    TableColumn{"bytes", "B", 12, "bytes"},
    TableColumn{"published", "us", 11, "published_us", 1, 2},
    TableColumn{"simulated", "us", 11, "simulated_us", 1, 2},
    TableColumn{"error", "%", 8, "error_percent", 1, 1},
    TableColumn{"published", "busbw", 10, "published_busbw_gbs", 1, 1},
    TableColumn{"simulated", "busbw", 10, "simulated_busbw_gbs", 1, 1},
    TableColumn{"collective", "", -12, "collective"},
    TableColumn{"algorithm", "", 0, "algorithm"}};

void run_calibrate(Bench& bench) {
  check_rank_is_sip(bench);
  const std::string& file = bench.settings().text("csv");
  if (file.empty()) {
    throw UsageError("KB-U012",
                     "--set csv=FILE: give a file of published times, whose head is like "
                     "'bytes,all_reduce_us'\n  for example: --topology h100_8 --set csv="
                     "topologies/h100_8/published.csv");
  }
  const MeasuredInput input = calibration_input(bench.settings(), bench.topology());
  const double tolerance = read_tolerance(bench.settings());
  const auto published = load_published_times(file);
  Sweep sweep(bench, "calibrate");
  for (const PublishedTime& one : published) {
    sweep.add(
        fmt::format("{} of {} B, {} us", name_of(one.collective), one.size, microseconds(one.time)),
        [&, one](PointContext& point) { return compare(point, input, tolerance, one); });
  }
  const std::vector<Row> rows = sweep.run();
  bench.print(table_head(kCalibrationColumns));
  for (const Row& row : rows)
    bench.print(table_line(kCalibrationColumns, row, bench.run().console));
}

}  // namespace

std::vector<PublishedTime> load_published_times(const std::string& file) {
  return parse_published_times(read_input_file(file, kMaxCsvBytes), file);
}

MeasuredInput calibration_input(const Settings& settings, const Topology& topology) {
  MeasuredInput input;
  input.blocks.ranks = topology.system.sip_count;
  input.blocks.dtype = settings.choice("dtype", kDTypes);
  input.placement = {Shard::column_wise, Shard::column_wise};
  input.repetitions = static_cast<int>(settings.integer("iters", 1, kMostRepetitions));
  return input;
}

// Timed without values: a second call would begin with the results of the first.
Measurement simulate(PointContext& point, const Topology& topology, const ccl::Config& ccl,
                     const MeasuredInput& input, const PublishedTime& published) {
  MeasuredInput own = input;
  own.blocks = blocks_of(input, published);
  own.in_place = spec_of(published.collective).in_place;
  const auto torch = point.make_context(topology, {.ccl = ccl, .data = false});
  return measure(*torch, own);
}

double error_percent(Time simulated, const PublishedTime& published) {
  return 100 * (to_ns(simulated) / to_ns(published.time) - 1);
}

double microseconds(Time time) {
  return to_ns(time) / 1000;
}

double read_tolerance(const Settings& settings) {
  return settings.is_set("tolerance") ? static_cast<double>(settings.integer("tolerance", 0, 1000))
                                      : std::numeric_limits<double>::infinity();
}

BenchInfo calibrate_bench() {
  return {"calibrate",
          "published times of collectives beside simulated ones, for any CSV file",
          {{"csv", "", "a file with a head such as bytes,all_reduce_us,all_gather_us"},
           {"dtype", "f16", "f16, bf16 or f32"},
           {"iters", "4", "calls back to back; their mean time counts"},
           {"tolerance", "", "percent; if a row is off by more, the run ends with exit code 1"}},
          run_calibrate,
          nullptr};
}

}  // namespace kernbench::benches::collectives
