#include "benches/numerics/levels.h"

#include <array>
#include <bit>
#include <string>

#include "benches/bench/bench_run.h"
#include "benches/bench/table.h"

namespace kernbench::benches::numerics {

namespace {

constexpr std::array kLevelColumns = {
    TableColumn{"reproducible", "", -14, "reproducible"},
    TableColumn{"type", "", 5, "dtype"},
    TableColumn{"ranks", "", 6, "ranks"},
    TableColumn{"vary", "(%)", 6, "varying", 100, 1},
    TableColumn{"worst", "(u S)", 7, "worst_error", 1, 2},
    TableColumn{"rms", "(u S)", 7, "rms_error", 1, 2},
    TableColumn{"rms", "(ulp)", 8, "rms_ulp", 1, 2},
    TableColumn{"time", "(ns)", 11, "time_ns", 1, 1},
    TableColumn{"of run", "", 7, "slower", 1, 2},
    TableColumn{"#wrong", "", 7, "wrong"},
    TableColumn{"algorithm", "", 0, "algorithm"},
};

// The algorithm of the sum, which is the last all_reduce: the level `ranks` has a maximum before
// it.
std::string algorithm_of(const RuntimeContext& torch) {
  std::string name;
  for (const runtime::AlgorithmUse& use : torch.engine().algorithms_used()) {
    if (use.collective == "all_reduce") name = use.algorithm;
  }
  return name;
}

struct SimulatedLevel {
  SimulatedSums alone;
  std::string algorithm;
  std::int64_t varying = 0;  // elements whose bits are others behind further ones
  std::int64_t wrong = 0;    // and that must not be, or that differ from rank to rank
};

SimulatedLevel simulate(PointContext& point, const Topology& topology, const SumCall& call) {
  SimulatedLevel result;
  SumCall behind_others = call;
  behind_others.before = call.count / 3 + 1;
  const auto beside = point.make_context(topology, {});
  beside->distributed.init_process_group("ahbm");
  const Elements other = simulate_sums(*beside, behind_others).sums;
  const auto torch = point.make_context(topology, {});
  torch->distributed.init_process_group("ahbm");
  result.alone = simulate_sums(*torch, call);
  result.algorithm = algorithm_of(*torch);
  const std::vector<float>& sums = result.alone.sums.front();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    result.varying += sums[i] != other.front()[i] ? 1 : 0;
    for (const std::vector<float>& own : result.alone.sums)
      result.wrong += own[i] != sums[i] ? 1 : 0;
  }
  if (call.level != Reproducible::run) result.wrong += result.varying;
  return result;
}

}  // namespace

std::vector<Row> run_levels(PointContext& point, const Topology& topology, SumCall call,
                            const std::vector<Reproducible>& levels) {
  std::vector<Row> rows;
  const SimulatedLevel usual = simulate(point, topology, call);
  const double run_ns = to_ns(usual.alone.took);
  for (const Reproducible level : levels) {
    if (level == Reproducible::pairs && !std::has_single_bit(static_cast<unsigned>(call.ranks))) {
      continue;
    }
    call.level = level;
    const SimulatedLevel simulated =
        level == Reproducible::run ? usual : simulate(point, topology, call);
    const SumErrors errors =
        find_errors(call.dtype, simulated.alone.given, simulated.alone.sums.front());
    point.check(simulated.wrong == 0 && errors.worst < call.ranks);
    const double time_ns = to_ns(simulated.alone.took);
    Row row;
    row.set("reproducible", name_of(level))
        .set("algorithm", simulated.algorithm)
        .set("dtype", name_of(call.dtype))
        .set("ranks", call.ranks)
        .set("varying", static_cast<double>(simulated.varying) / static_cast<double>(call.count))
        .set("worst_error", errors.worst)
        .set("rms_error", errors.rms)
        .set("worst_ulp", errors.worst_ulp)
        .set("rms_ulp", errors.rms_ulp)
        .set("time_ns", time_ns)
        .set("slower", run_ns > 0 ? time_ns / run_ns : 1)
        .set("wrong", simulated.wrong);
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_levels(Bench& bench, const std::vector<Row>& rows) {
  bench.print(
      "#\n#   Sums that have the same bits more often (Reproducible), by the default algorithm.  "
      "vary: elements\n#   whose bits are others where more elements lie in front of them\n#\n" +
      table_head(kLevelColumns));
  for (const Row& row : rows) bench.print(table_line(kLevelColumns, row, bench.run().console));
}

}  // namespace kernbench::benches::numerics
