#include "benches/operators/operator_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "benches/bench/bench.h"
#include "benches/bench/bench_run.h"
#include "benches/bench/energy_cells.h"
#include "benches/bench/inputs.h"
#include "benches/bench/output_file.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/split_list.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/operators/case_check.h"
#include "benches/operators/correctness.h"
#include "benches/operators/measurement.h"
#include "benches/operators/operator_cases.h"
#include "benches/operators/perf_rows.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/trace/trace_recorder.h"

namespace kernbench::benches::operators {

namespace {

// All PEs work alike on parts of the tokens: a trace is of one.
constexpr std::string_view kTracedUnits = "cube0.pe0.";
constexpr std::size_t kMostSpans = 80'000;  // of a trace: 10 MB

// The command's arguments after they have been checked.
struct Request {
  const OperatorCase& operator_case;
  std::vector<ProblemSize> sizes;  // to time
  std::vector<DType> dtypes;
  bool plot = false;
  bool profile = false;
};

constexpr std::int64_t kMostSide = std::int64_t{1} << 24;

// The case's sizes; or all combinations of those that --set gives, each of which replaces the
// case's.
std::vector<ProblemSize> read_sizes(const Settings& settings, const OperatorCase& operator_case,
                                    bool plot) {
  const std::vector<ProblemSize> own = timed_sizes(operator_case, plot);
  const auto values = [&](std::string_view key, std::int64_t ProblemSize::*member) {
    if (settings.is_set(key)) return settings.integers(key, 1, kMostSide);
    std::vector<std::int64_t> all;
    for (const ProblemSize& size : own) {
      if (std::ranges::find(all, size.*member) == all.end()) all.push_back(size.*member);
    }
    return all;
  };
  if (!settings.is_set("batch_size") && !settings.is_set("seq_len") && !settings.is_set("dim")) {
    return own;
  }
  std::vector<ProblemSize> sizes;
  for (const std::int64_t dim : values("dim", &ProblemSize::dim)) {
    for (const std::int64_t batch : values("batch_size", &ProblemSize::batch)) {
      for (const std::int64_t seq : values("seq_len", &ProblemSize::seq)) {
        sizes.push_back({batch, seq, dim});
      }
    }
  }
  return sizes;
}

Request make_request(const Bench& bench) {
  const Settings& settings = bench.settings();
  const OperatorCase& operator_case = *operator_cases().find(settings.text("case"));
  return {.operator_case = operator_case,
          .sizes = read_sizes(settings, operator_case, settings.flag("plot")),
          .dtypes = parse_dtypes("--set dtype", settings.text("dtype")),
          .plot = settings.flag("plot"),
          .profile = settings.flag("profile")};
}

std::string sweep_name(const Request& request, DType dtype, std::string_view what) {
  return fmt::format("{}-{}-{}", request.operator_case.name(), name_of(dtype), what);
}

std::string tokens_text(const Topology& topology) {
  return fmt::format("{}: tokens on the {} PEs of SIP 0, row by row; parameters on each",
                     topology.name, pes_of_sip(topology));
}

// "rms/bf16/"
std::string make_folder_name(const Request& request, DType dtype) {
  return fmt::format("{}/{}/", request.operator_case.name(), name_of(dtype));
}

std::string make_file_name(const Request& request, DType dtype, Direction direction,
                           std::string_view what) {
  return make_folder_name(request, dtype) +
         sweep_name(request, dtype, fmt::format("{}-{}", name_of(direction), what));
}

std::vector<Row> check(Bench& bench, const Request& request, DType dtype) {
  Sweep sweep(bench, sweep_name(request, dtype, "check"));
  sweep.limit_memory(kMostCheckedBytes);
  const std::size_t providers = request.operator_case.providers().size();
  std::uint64_t seed = bench.seed();  // other elements for each: two sizes may be one matrix
  for (const ProblemSize& size : request.operator_case.checked_sizes()) {
    const Problem problem{size, dtype, seed++};
    sweep.add(
        describe(problem),
        [&request, problem](PointContext& point) {
          return check_providers(point, request.operator_case, problem);
        },
        checked_bytes(define(request.operator_case, problem), providers));
  }
  return sweep.run();
}

std::string check_table(std::span<const Row> rows) {
  std::string text = fmt::format(
      "#\n# checked: each element beside {} (atol = rtol = {}) and beside an f64 reference with "
      "its "
      "bound;\n# the largest shares of what is allowed\n# {:>5} {:>6} {:>6} {:>6} {:>4} {:<16} "
      "{:>8} {:>8}\n",
      text_in(rows.front(), "provider"), kAtol, "type", "batch", "seq", "dim", "", "provider",
      "of tol.", "of bound");
  for (const Row& row : rows) {
    text += fmt::format("  {:>5} {:>6} {:>6} {:>6} {:>4} {:<16} {:>8.4f} {:>8.4f}\n",
                        text_in(row, "checked"), number_in(row, "batch_size"),
                        number_in(row, "seq_len"), number_in(row, "dim"), text_in(row, "direction"),
                        text_in(row, "provider"), number_in(row, "of_gate"),
                        number_in(row, "of_bound"));
  }
  return text;
}

// A row for each direction.
std::vector<Row> measure_all(PointContext& point, const OperatorCase& operator_case,
                             const Problem& problem) {
  const std::vector<ProviderInfo> providers = operator_case.providers();
  const Definition definition = define(operator_case, problem);
  std::vector<MeasuredBoth> measured;
  for (const ProviderInfo& provider : providers) {
    const auto torch = point.make_context(point.bench().topology(), {.data = false});
    measured.push_back(measure(*torch, definition, provider));
  }
  std::vector<Row> rows;
  for (const Direction direction : directions_of(definition)) {
    rows.push_back(perf_row(definition, providers, direction, measured));
    runtime::EnergyUse energy;
    for (const MeasuredBoth& one : measured) {
      energy += one[static_cast<std::size_t>(direction)].energy;
    }
    add_energy(rows.back(), energy);
  }
  return rows;
}

using RowsByDirection = std::map<Direction, std::vector<Row>>;

// Rows of all sizes.
RowsByDirection time_all(Bench& bench, const Request& request, DType dtype) {
  Sweep sweep(bench, sweep_name(request, dtype, "perf"));
  const std::vector<ProblemSize>& sizes = request.sizes;
  for (const ProblemSize& size : sizes) {
    const Problem problem{size, dtype, bench.seed()};
    sweep.add(describe(problem), [&request, problem](PointContext& point) {
      return measure_all(point, request.operator_case, problem);
    });
  }
  const std::span<const Direction> directions =
      directions_of(define(request.operator_case, {sizes.front(), dtype, bench.seed()}));
  RowsByDirection rows;
  std::size_t next = 0;
  for (Row& row : sweep.run()) {
    rows[directions[next++ % directions.size()]].push_back(std::move(row));
  }
  return rows;
}

void show_times(Bench& bench, const Request& request, DType dtype,
                figure::FigureArtifacts& figures) {
  const std::vector<ProviderInfo> providers = request.operator_case.providers();
  for (const auto& [direction, rows] : time_all(bench, request, dtype)) {
    const std::string title =
        fmt::format("{}, {}, {}", request.operator_case.name(), name_of(dtype), name_of(direction));
    bench.print(perf_table(title, rows, providers));
    const std::string what = request.plot ? "speedup" : "perf";
    const std::string stem = make_file_name(request, dtype, direction, what);
    bench.add_artifact(stem + ".csv", to_csv(rows));
    if (!request.plot || providers.size() < 2) continue;
    figures.add(stem, speed_up_chart(title, tokens_text(bench.topology()),
                                     std::filesystem::path(stem + ".csv").filename().string(), rows,
                                     providers));
  }
}

void add_traces(Bench& bench, const Request& request, const Problem& problem) {
  const Definition definition = define(request.operator_case, problem);
  for (const ProviderInfo& info : request.operator_case.providers()) {
    RuntimeContext torch(bench.topology(), {.data = false, .trace = true});
    auto& trace = *simulation_of(torch).machine().trace();
    const std::vector<Tensor> inputs = make_inputs(torch, definition);
    OperatorRun run(torch, definition, inputs);
    const std::unique_ptr<Provider> provider = make_provider(info, run);
    for (const Direction direction : directions_of(definition)) {
      const Time start = torch.engine().now();
      trace.keep_only(kTracedUnits, kMostSpans);
      compute(torch, *provider, info, definition, direction);
      bench.add_artifact(
          fmt::format("{}traces/trace_{}_{}_N{}.json", make_folder_name(request, problem.dtype),
                      name_of(direction), info.name, problem.size.tokens()),
          trace.to_json(start));
    }
  }
}

// A trace for each number of tokens, with the largest dim.
void profile(Bench& bench, const Request& request, DType dtype) {
  std::map<std::int64_t, ProblemSize> by_tokens;
  for (const ProblemSize& size : request.sizes) {
    const auto [place, is_new] = by_tokens.try_emplace(size.tokens(), size);
    if (!is_new && size.dim > place->second.dim) place->second = size;
  }
  for (const auto& [tokens, size] : by_tokens) {
    add_traces(bench, request, {size, dtype, bench.seed()});
  }
  bench.print(
      fmt::format("# traces of {} numbers of tokens, with the largest dim: what the units of "
                  "sip0.{} do, at most {} spans\n",
                  by_tokens.size(), kTracedUnits.substr(0, kTracedUnits.size() - 1), kMostSpans));
}

void run(Bench& bench) {
  const Request request = make_request(bench);
  check_case(request.operator_case, request.dtypes, bench.seed(), request.plot);
  for (const DType dtype : request.dtypes) {
    for (const ProblemSize& size : request.sizes) {
      define(request.operator_case, {size, dtype, bench.seed()});
    }
  }
  const std::filesystem::path& folder = bench.output_folder(bench.settings().text("save_path"));
  for (const DType dtype : request.dtypes) {
    if (bench.run().leads()) create_output_folder(folder / make_folder_name(request, dtype));
  }
  bench.note("operator", request.operator_case.summary());
  bench.note("placement", tokens_text(bench.topology()));
  std::vector<Row> checked;
  for (const DType dtype : request.dtypes) {
    for (Row& row : check(bench, request, dtype)) checked.push_back(std::move(row));
  }
  bench.print(check_table(checked));
  figure::FigureArtifacts figures(bench);
  for (const DType dtype : request.dtypes) show_times(bench, request, dtype, figures);
  if (!request.profile || !bench.run().leads()) return;
  for (const DType dtype : request.dtypes) profile(bench, request, dtype);
}

}  // namespace

BenchInfo make_bench(std::string_view case_name) {
  return {.name = fmt::format("operator {}", case_name),
          .summary = "an operator, checked, then timed",
          .settings = {{"case", std::string(case_name), "the operator", SettingType::name},
                       {"dtype", "bf16",
                        "f16 (or fp16), bf16 and f32 (or fp32), separated by commas, or all",
                        SettingType::names},
                       {"batch_size", "", "sizes to time, a list; else the case's",
                        SettingType::integers},
                       {"seq_len", "", "likewise", SettingType::integers},
                       {"dim", "", "likewise", SettingType::integers},
                       {"save_path", "configs", "the folder of its files", SettingType::path},
                       {"plot", "false", "true: batch 1, and speed-ups over the length as figures",
                        SettingType::flag},
                       {"profile", "false", "true: Chrome traces", SettingType::flag}},
          .run = run,
          .ranks = BenchRanks::one};
}

std::vector<DType> parse_dtypes(std::string_view option, std::string_view text) {
  if (text == "all") return {kDTypes.begin(), kDTypes.end()};
  std::vector<DType> dtypes;
  for (const std::string_view name : split_list(fmt::format("{} {}", option, shown(text)), text)) {
    const auto dtype = parse_dtype(name == "fp16" ? "f16" : name == "fp32" ? "f32" : name);
    if (name == "all") {
      throw UsageError("KB-U012", "{} {}: 'all' stands for every type, so it stands alone", option,
                       in_quotes(text));
    }
    if (!dtype) {
      constexpr std::array<std::string_view, 4> kNames = {"f16", "bf16", "f32", "all"};
      throw UsageError("KB-U012", "{} {}: not known{}", option, in_quotes(name),
                       suggestion(name, kNames));
    }
    dtypes.push_back(*dtype);
  }
  return dtypes;
}

}  // namespace kernbench::benches::operators
