// kernels: the functions of a training step on all PEs, each pass beside its roofline.

#include "benches/kernels/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/bench/energy_cells.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/table.h"
#include "benches/kernels/measured_kernels.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::kernels {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 34;
constexpr std::int64_t kMostColumns = std::int64_t{1} << 20;
constexpr std::array kFloats = {DType::f16, DType::bf16, DType::f32};

constexpr std::array kColumns = {
    TableColumn{"function", "", -14, "function"},
    TableColumn{"pass", "", -8, "pass"},
    TableColumn{"size", "(B)", 10, "bytes"},
    TableColumn{"kernels", "", 7, "kernels"},
    TableColumn{"time", "(us)", 11, "time_ns", 1e-3, 3},
    TableColumn{"roofline", "(us)", 11, "roofline_ns", 1e-3, 3},
    TableColumn{"roof", "", -7, "bound"},
    TableColumn{"share", "(%)", 6, "share", 100, 1},
    TableColumn{"HBM", "(B)", 12, "hbm_bytes"},
};

std::vector<KernelCase> read_cases(const Settings& settings) {
  const std::vector<KernelCase>& all = kernel_cases();
  if (settings.text("function") == "all") return all;
  std::vector<std::string_view> names;
  for (const KernelCase& one : all) names.push_back(one.name);
  std::vector<KernelCase> chosen;
  for (const std::string_view name : settings.list("function")) {
    const auto found = std::ranges::find(all, name, &KernelCase::name);
    if (found == all.end()) {
      throw UsageError("KB-U012", "--set function={}: '{}' is not known{}",
                       settings.text("function"), name, suggestion(name, names));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

std::vector<KernelInput> read_inputs(const Bench& bench) {
  const Settings& settings = bench.settings();
  const DType dtype = settings.choice("dtype", kFloats);
  const std::int64_t columns = settings.integer("columns", 1, kMostColumns);
  const Bytes row = columns * size_of(dtype);
  std::vector<KernelInput> inputs;
  for (const Bytes size : settings.integers("size", row, kMostBytes)) {
    inputs.push_back({.rows = size / row,
                      .columns = columns,
                      .dtype = dtype,
                      .on = train::read_pes(settings, bench.topology(), kMostBytes)});
  }
  return inputs;
}

Row to_row(const KernelCase& kernel, const KernelInput& input, std::string_view pass) {
  return Row()
      .set("function", kernel.name)
      .set("pass", pass)
      .set("dtype", name_of(input.dtype))
      .set("rows", input.rows)
      .set("columns", input.columns)
      .set("bytes", input.bytes());
}

void add_measured(Row& row, const MeasuredPass& pass) {
  const Time roofline = pass.roofline();
  row.set("kernels", pass.kernels)
      .set("time_ns", to_ns(pass.time))
      .set("roofline_ns", to_ns(roofline))
      .set("bound", pass.compute_bound > pass.memory_bound ? "compute" : "memory")
      .set("share",
           pass.time > Time{0} ? std::optional(to_ns(roofline) / to_ns(pass.time)) : std::nullopt)
      .set("hbm_bytes", pass.hbm_bytes)
      .set("error", "");
}

void add_error(Row& row, const DeviceError& error) {
  for (const char* cell : {"kernels", "time_ns", "roofline_ns", "bound", "share", "hbm_bytes"}) {
    row.set(cell, std::optional<double>());
  }
  row.set("error", error.what());
}

// A kernel that is faster than its roofline shows a fault of the simulator, so it fails the point.
// A pass that does not fit into memory fails the point too, and those behind it have no rows.
std::vector<Row> simulate(PointContext& point, const KernelCase& kernel, const KernelInput& input) {
  const auto torch = point.make_context(point.bench().topology(), {.data = false});
  std::vector<Row> rows;
  for (const Pass& pass : kernel.prepare(*torch, input)) {
    rows.push_back(to_row(kernel, input, pass.name));
    try {
      const MeasuredPass measured = measure(*torch, pass, input);
      add_measured(rows.back(), measured);
      add_energy(rows.back(), point.contexts());
      point.check(measured.time >= measured.roofline());
    } catch (const DeviceError& error) {
      if (error.code() != "KB-M010") throw;
      add_error(rows.back(), error);
      point.check(false);
      break;
    }
  }
  return rows;
}

void run_kernels(Bench& bench) {
  const std::vector<KernelCase> cases = read_cases(bench.settings());
  const std::vector<KernelInput> inputs = read_inputs(bench);
  bench.note("device", train::describe(inputs.front().on, bench.topology()));
  bench.note("operands", fmt::format("rows of {} {}; optimizers have f32", inputs.front().columns,
                                     name_of(inputs.front().dtype)));
  Sweep sweep(bench, "kernels");
  for (const KernelCase& kernel : cases) {
    for (const KernelInput& input : inputs) {
      sweep.add(fmt::format("{} {} x {}", kernel.name, input.rows, input.columns),
                [kernel, input](PointContext& point) { return simulate(point, kernel, input); });
    }
  }
  bench.print("#\n" + table_head(kColumns));
  std::string errors;
  for (const Row& row : sweep.run()) {
    bench.print(table_line(kColumns, row, bench.run().console));
    if (const std::string& error = text_in(row, "error"); !error.empty()) {
      errors += fmt::format("# {} {}: {}\n", text_in(row, "function"), text_in(row, "pass"),
                            error.substr(0, error.find('\n')));
    }
  }
  bench.print(
      "# time: of each kernel from its first PE's start to its last PE's end, without launches\n"
      "# roofline: the bytes that have to cross HBM once, and the products at PE_GEMM's peak; it\n"
      "# knows neither PE_MATH nor the ways from HBM to PEs\n" +
      errors);
}

}  // namespace

BenchInfo kernels_bench() {
  return {"kernels",
          "the functions of a training step on all PEs, each pass beside its roofline",
          {{"function", "all", "which, a list: layer_norm, softmax, attention, adamw, ...",
            SettingType::names},
           {"size", "1Mi,16Mi,64Mi", "bytes of an operand, a list", SettingType::integers},
           {"columns", "4096", "elements of a row", SettingType::integer},
           {"dtype", "bf16", "f16, bf16 or f32", SettingType::name},
           {"cubes", "", "of the SIP; else all", SettingType::integer},
           {"pes", "", "of each of these cubes; else all", SettingType::integer}},
          run_kernels,
          nullptr,
          BenchRanks::own};
}

}  // namespace kernbench::benches::kernels
