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

struct CalibrationRequest {
  MeasuredInput input;  // without the collective and the count
  double tolerance = std::numeric_limits<double>::infinity();  // in percent
};

CalibrationRequest read_request(const Bench& bench) {
  const Settings& settings = bench.settings();
  CalibrationRequest request;
  BlocksInput& blocks = request.input.blocks;
  blocks.ranks = bench.topology().system.sip_count;
  blocks.dtype = settings.choice("dtype", kDTypes);
  request.input.in_place = true;
  request.input.placement = {Shard::column_wise, Shard::column_wise};
  request.input.repetitions = static_cast<int>(settings.integer("iters", 1, kMostRepetitions));
  if (settings.is_set("tolerance")) {
    request.tolerance = static_cast<double>(settings.integer("tolerance", 0, 1000));
  }
  return request;
}

double microseconds(Time time) {
  return to_ns(time) / 1000;
}

// Timed without values: a second call would begin with the results of the first.
Row compare(PointContext& point, const CalibrationRequest& request,
            const PublishedTime& published) {
  MeasuredInput input = request.input;
  const CollectiveSpec& spec = spec_of(published.collective);
  input.blocks.collective = published.collective;
  input.in_place = spec.in_place;
  input.blocks.count =
      published.size / size_of(input.blocks.dtype) / spec.blocks_in_size(input.blocks.ranks);
  const Bench& bench = point.bench();
  const auto torch = point.make_context(bench.topology(), {.ccl = bench.ccl(), .data = false});
  const Measurement measured = measure(*torch, input);
  const double error = 100 * (to_ns(measured.time) / to_ns(published.time) - 1);
  const double factor = spec.factor.of(input.blocks.ranks);
  point.check(std::abs(error) <= request.tolerance);
  return Row()
      .set("collective", spec.name)
      .set("bytes", published.size)
      .set("published_us", microseconds(published.time))
      .set("simulated_us", microseconds(measured.time))
      .set("error_percent", error)
      .set("published_busbw_gbs", factor * algbw_gbs(published.size, published.time))
      .set("simulated_busbw_gbs", factor * algbw_gbs(input.blocks.bytes(), measured.time))
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
                     "'bytes,all_reduce_us'\n  for example: --topology h100_8 --ccl "
                     "topologies/h100_8/ccl.yaml --set csv=topologies/h100_8/published.csv");
  }
  const CalibrationRequest request = read_request(bench);
  const auto published = parse_published_times(read_input_file(file, kMaxCsvBytes), file);
  Sweep sweep(bench, "calibrate");
  for (const PublishedTime& one : published) {
    sweep.add(
        fmt::format("{} of {} B, {} us", name_of(one.collective), one.size, microseconds(one.time)),
        [request, one](PointContext& point) { return compare(point, request, one); });
  }
  const std::vector<Row> rows = sweep.run();
  bench.print(table_head(kCalibrationColumns));
  for (const Row& row : rows)
    bench.print(table_line(kCalibrationColumns, row, bench.run().console));
}

}  // namespace

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
