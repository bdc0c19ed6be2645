#include "benches/stragglers/stragglers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/table.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/stragglers/attribution.h"
#include "benches/stragglers/scheme_step.h"
#include "benches/stragglers/situations.h"
#include "benches/train/model_settings.h"
#include "benches/variants/row_plot.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/routing.h"

namespace kernbench::benches::stragglers {

namespace {

constexpr std::array kStepColumns = {
    TableColumn{"scheme", "", -6, "scheme"},
    TableColumn{"step", "(us)", 11, "step_ns", 1e-3, 3},
    TableColumn{"without", "(us)", 11, "ideal_ns", 1e-3, 3},
    TableColumn{"S", "", 6, "slowdown", 1, 3},
    TableColumn{"S_comp", "", 6, "slowdown_of_computing", 1, 3},
    TableColumn{"S_link", "", 6, "slowdown_of_links", 1, 3},
    TableColumn{"worst", "rank", 5, "worst"},
    TableColumn{"S_w", "", 6, "slowdown_of_worst", 1, 3},
    TableColumn{"M_w", "", 6, "removed_by_worst", 1, 3},
    TableColumn{"faults", "", 0, "scenario"},
};

constexpr std::array kSituationColumns = {
    TableColumn{"situation", "", -11, "situation"},
    TableColumn{"dp", "", 3, "pipelines"},
    TableColumn{"pp", "", 3, "stages"},
    TableColumn{"step", "(us)", 11, "step_ns", 1e-3, 3},
    TableColumn{"ideal", "(us)", 11, "ideal_ns", 1e-3, 3},
    TableColumn{"S", "", 6, "slowdown", 1, 3},
    TableColumn{"S_fwd", "", 6, "slowdown_of_forward", 1, 3},
    TableColumn{"S_bwd", "", 6, "slowdown_of_backward", 1, 3},
    TableColumn{"worst", "rank", 5, "worst"},
    TableColumn{"S_w", "", 6, "slowdown_of_worst", 1, 3},
    TableColumn{"M_w", "", 6, "removed_by_worst", 1, 3},
    TableColumn{"M_s", "", 6, "removed_by_last_stage", 1, 3},
};

// The faults that a step has, beside none.
struct FaultScenario {
  std::string name;
  std::vector<Fault> faults;
};

Fault fault_of(const std::string& text) {
  ParsedFault parsed = parse_fault(text);
  KB_CHECK(parsed.wrong.empty(), "{}", parsed.wrong);
  return std::move(parsed.fault);
}

// The first link out of a SIP that leads to another one.
std::string first_link_of(const Topology& topology, int sip) {
  const sim::Routing routing(topology);
  const std::string begin = fmt::format("sip{}.link.", sip);
  for (sim::LinkId link = 0; link < routing.link_count(); ++link) {
    std::string name = routing.name(link);
    if (routing.is_there(link) && name.starts_with(begin)) return name.substr(0, name.find('['));
  }
  return fmt::format("sip{}.io.out", sip);
}

// Each of a slow worker, noise and a slow link alone, and all of them.
std::vector<FaultScenario> usual_faults(const Topology& topology, std::uint64_t seed) {
  const Fault slow = fault_of("rank=1 clock=x0.5");
  const Fault noise =
      fault_of(fmt::format("compute=lognormal sigma=0.3 seed={}", seed % 1'000'000));
  const Fault link = fault_of(fmt::format("link={} bandwidth=x0.25", first_link_of(topology, 0)));
  return {{"slow rank", {slow}},
          {"noise", {noise}},
          {"slow link", {link}},
          {"all", {slow, noise, link}}};
}

std::string texts_of(const std::vector<Fault>& faults) {
  std::vector<std::string_view> texts;
  for (const Fault& fault : faults) texts.push_back(fault.text);
  return fmt::format("{}", fmt::join(texts, "; "));
}

SchemeInput read_input(const Settings& settings, const Topology& topology) {
  SchemeInput input;
  constexpr auto kModel = train::ModelKind::gpt;
  const train::ModelInput read =
      train::read_model("stragglers", train::ModelPart::whole, kModel, settings, topology);
  input.model = {.model = kModel,
                 .size = read.size,
                 .dtype = read.dtype,
                 .world = static_cast<int>(settings.integer("world", 2, train::kMostRanks)),
                 .on = read.on};
  return input;
}

// PEs share the heads of a rank of tensor parallelism.
int tp_pes_of(const SchemeInput& input, const Topology& topology) {
  const std::int64_t heads = input.model.size.heads;
  if (heads % input.model.world != 0) {
    throw UsageError("KB-U012", "--set heads: {} heads are not divided by world, which is {}",
                     heads, input.model.world);
  }
  return static_cast<int>(std::gcd(heads / input.model.world, std::int64_t{topology.cube_count()}));
}

Row step_row(const SchemeInput& input, const FaultScenario& scenario, const Attribution& found) {
  return Row()
      .set("table", "step")
      .set("scheme", name_of(input.sharing))
      .set("world", input.model.world)
      .set("scenario", scenario.name)
      .set("faults", texts_of(scenario.faults))
      .set("step_ns", to_ns(found.actual))
      .set("ideal_ns", to_ns(found.ideal))
      .set("slowdown", found.slowdown(found.actual))
      .set("slowdown_of_computing", found.slowdown(found.computing_alone))
      .set("slowdown_of_links", found.slowdown(found.links_alone))
      .set("worst", found.worst)
      .set("slowdown_of_worst", found.slowdown(found.worst_alone))
      .set("removed_by_worst", found.removed_share());
}

Row simulate_scheme(PointContext& point, const SchemeInput& input, const FaultScenario& scenario) {
  Topology machine = with_sips(point.bench().topology(), input.model.world);
  const auto step = [&](const std::vector<Fault>& faults) {
    machine.faults = faults;
    let_parts_be_lacking(machine.faults);
    return step_time(point, input, machine);
  };
  const Attribution found = attribute(by_worker(scenario.faults, input.model.world), step);
  return step_row(input, scenario, found);
}

Row situation_row(Situation situation, const PassTimes& times, const SituationFigures& figures) {
  return Row()
      .set("table", "situation")
      .set("situation", name_of(situation))
      .set("pipelines", times.pipelines())
      .set("stages", times.stages())
      .set("microbatches", times.microbatches())
      .set("step_ns", to_ns(figures.actual))
      .set("ideal_ns", to_ns(figures.ideal))
      .set("slowdown", figures.slowdown)
      .set("slowdown_of_forward", figures.forward)
      .set("slowdown_of_backward", figures.backward)
      .set("worst", figures.worst)
      .set("slowdown_of_worst", figures.worst_alone)
      .set("removed_by_worst", figures.removed_by_worst)
      .set("removed_by_last_stage", figures.removed_by_last_stage);
}

std::vector<Row> select(const std::vector<Row>& rows, std::string_view table) {
  std::vector<Row> found;
  std::ranges::copy_if(rows, std::back_inserter(found),
                       [&](const Row& row) { return text_in(row, "table") == table; });
  return found;
}

void print_table(Bench& bench, std::span<const TableColumn> columns, const std::vector<Row>& rows) {
  if (rows.empty()) return;
  bench.print("#\n" + table_head(columns));
  for (const Row& row : rows) bench.print(table_line(columns, row, bench.run().console));
}

void add_artifacts(Bench& bench, const std::vector<Row>& steps) {
  if (bench.run().output_folder.empty() || steps.empty()) return;
  variants::RowPlot plot =
      variants::make_plot(steps, {.x = "scenario", .y = "slowdown", .by = "scheme"},
                          "A training step with faults, over one without", "slowdown.csv");
  plot.chart.subtitle = bench.topology().name;
  bench.add_artifact("slowdown.csv", to_csv(plot.points));
  figure::FigureArtifacts(bench).add("slowdown", plot.chart);
}

std::vector<FaultScenario> read_scenarios(const Bench& bench) {
  const std::vector<Fault>& given = bench.topology().faults;
  if (given.empty()) return usual_faults(bench.topology(), bench.seed());
  check_take_time(given);
  return {{"given", given}};
}

void add_points(Sweep& sweep, const Bench& bench, const std::vector<FaultScenario>& scenarios) {
  SchemeInput input = read_input(bench.settings(), bench.topology());
  for (const Sharing sharing : bench.settings().choices("scheme", kSharings)) {
    input.sharing = sharing;
    if (sharing == Sharing::tp) input.tp_pes = tp_pes_of(input, bench.topology());
    for (const FaultScenario& scenario : scenarios) {
      sweep.add(fmt::format("{} {}", name_of(sharing), scenario.name),
                [input, scenario](PointContext& point) {
                  return simulate_scheme(point, input, scenario);
                });
    }
  }
  if (!bench.settings().flag("situations")) return;
  for (const Situation situation : kSituations) {
    sweep.add(std::string(name_of(situation)), [situation](PointContext& point) {
      const PassTimes times = times_of(situation, point.bench().seed());
      return situation_row(situation, times, simulate_situation(point, times));
    });
  }
}

void run_stragglers(Bench& bench) {
  check_rank_is_sip(bench);
  Sweep sweep(bench, "stragglers");
  const std::vector<FaultScenario> scenarios = read_scenarios(bench);
  add_points(sweep, bench, scenarios);
  bench.note("S",
             "time with faults over time without; S_t, S_w: with those of a kind or rank alone");
  bench.note("M",
             "share of the lost time that comes back without the faults of the worst rank, or"
             " of the last stage");
  for (const FaultScenario& scenario : scenarios) {
    if (scenario.name != "given") bench.note(scenario.name, texts_of(scenario.faults));
  }
  const std::vector<Row> rows = sweep.run();
  const std::vector<Row> steps = select(rows, "step");
  print_table(bench, kStepColumns, steps);
  print_table(bench, kSituationColumns, select(rows, "situation"));
  add_artifacts(bench, steps);
}

}  // namespace

BenchInfo stragglers_bench() {
  std::vector<SettingInfo> settings = train::model_settings(train::ModelPart::whole, "1", "1");
  settings.insert(settings.begin(), {{"scheme", "ddp,zero1,fsdp2,tp",
                                      "ddp, zero1, fsdp2, tp, a list", SettingType::names},
                                     {"world", "4", "ranks", SettingType::integer}});
  settings.push_back(
      {"situations", "1", "0: leave out the three that are built by hand", SettingType::flag});
  return {"stragglers",
          "what slow ranks, links and noise cost a training step, and whose they are",
          std::move(settings),
          run_stragglers,
          nullptr,
          BenchRanks::own};
}

}  // namespace kernbench::benches::stragglers
