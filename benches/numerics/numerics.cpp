// numerics: all_reduces of normally distributed numbers over several numbers of ranks, by each
// algorithm and in each type.  The order in which an algorithm adds bounds the error, and the bench
// checks more than that: the simulated bits are those that the tree of each element gives.
//
// The machine is the run's, with as many SIPs as wanted in a network of the same kind.  Tensors lie
// on one PE of each, so the time is that of one lane.

#include "benches/numerics/numerics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "benches/bench/bench_run.h"
#include "benches/bench/table.h"
#include "benches/numerics/levels.h"
#include "benches/numerics/simulated_sums.h"
#include "benches/numerics/training.h"
#include "runtime/distributed/collective.h"
#include "sim_engine/base/error.h"
#include "sim_engine/faults/fault.h"

namespace kernbench::benches::numerics {

namespace {

using distributed::CollectiveKind;

constexpr int kMostRanks = 256;
constexpr Bytes kMostBytes = Bytes{16} << 20;

struct Case {
  Topology topology;
  const ccl::Algorithm* algorithm = nullptr;
  std::vector<DType> dtypes;
  Bytes bytes = 0;

  int ranks() const { return topology.system.sip_count; }
};

std::vector<int> sips_of(const Topology& topology) {
  std::vector<int> sips(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(sips.begin(), sips.end(), 0);
  return sips;
}

// The same network with so many SIPs, without nodes; in two dimensions it is as square as possible.
Topology with_ranks(Topology topology, int ranks) {
  Topology::System& system = topology.system;
  const bool is_plane = system.topology == SipTopology::torus_2d ||
                        system.topology == SipTopology::mesh_2d_no_wrap ||
                        system.topology == SipTopology::torus_3d;
  const sim::Grid grid = is_plane ? ccl::square_grid(ranks) : sim::Grid{ranks, 1};
  system.w = grid.w;
  system.h = grid.h;
  system.d = 1;
  system.sip_count = ranks;
  system.nodes = {};
  let_parts_be_lacking(topology.faults);
  return topology;
}

bool fits(const ccl::Algorithm& algorithm, const Topology& topology) {
  if (algorithm.plan == nullptr || !serves(algorithm, CollectiveKind::all_reduce)) return false;
  const bool adds_up = algorithm.network == ccl::Network::adds_up;
  if (adds_up && !provides(topology, algorithm.network)) return false;
  return describe_misfit(algorithm, ccl::shape_of_sips(topology, sips_of(topology))).empty();
}

// The named algorithms; else all that can run there.
std::vector<const ccl::Algorithm*> find_algorithms(const Settings& settings,
                                                   const Topology& topology) {
  std::vector<const ccl::Algorithm*> found;
  std::vector<std::string_view> names;
  for (const ccl::Algorithm* const algorithm : ccl::algorithms()) {
    if (!fits(*algorithm, topology)) continue;
    found.push_back(algorithm);
    names.push_back(algorithm->name);
  }
  if (!settings.is_set("algorithm")) return found;
  std::vector<const ccl::Algorithm*> named;
  for (const std::string_view name : settings.list("algorithm")) {
    const auto at = std::ranges::find(names, name);
    if (at == names.end()) {
      throw UsageError("KB-U012",
                       "--set algorithm: '{}' adds up no all_reduce of {} ranks on '{}'{}", name,
                       topology.system.sip_count, topology.name, suggestion(name, names));
    }
    named.push_back(found[static_cast<std::size_t>(at - names.begin())]);
  }
  return named;
}

std::vector<Row> run_case(PointContext& point, const Case& of) {
  const auto config = std::make_shared<const ccl::Config>(
      point.bench().ccl().with_algorithm(std::string(of.algorithm->name)));
  const auto torch = point.make_context(of.topology, {.ccl = config});
  torch->distributed.init_process_group("ahbm");
  std::vector<Row> rows;
  for (const DType dtype : of.dtypes) {
    const std::int64_t count = of.bytes / size_of(dtype);
    const SimulatedSums simulated = simulate_sums(
        *torch,
        {.ranks = of.ranks(), .dtype = dtype, .count = count, .seed = point.bench().seed()});
    const ccl::OrderOfSums order =
        ccl::find_order({of.topology, *config, *of.algorithm, CollectiveKind::all_reduce,
                         sips_of(of.topology), count, dtype, DPPolicy::on_one_pe()});
    const SumErrors errors = find_errors(order, dtype, simulated.given, simulated.sums);
    point.check(errors.wrong == 0 && errors.worst <= errors.depth);
    rows.push_back(Row()
                       .set("algorithm", of.algorithm->name)
                       .set("dtype", name_of(dtype))
                       .set("ranks", of.ranks())
                       .set("trees", order.sums_of_plan)
                       .set("depth", errors.depth)
                       .set("varying", errors.varying)
                       .set("worst_error", errors.worst)
                       .set("rms_error", errors.rms)
                       .set("worst_ulp", errors.worst_ulp)
                       .set("rms_ulp", errors.rms_ulp)
                       .set("crit_ns", to_ns(simulated.kernels))
                       .set("wrong", errors.wrong));
  }
  return rows;
}

constexpr std::array kColumns = {
    TableColumn{"algorithm", "", -28, "algorithm"},
    TableColumn{"type", "", 5, "dtype"},
    TableColumn{"ranks", "", 6, "ranks"},
    TableColumn{"trees", "", 6, "trees"},
    TableColumn{"vary", "(%)", 6, "varying", 100, 1},
    TableColumn{"bound", "(u S)", 6, "depth"},
    TableColumn{"worst", "(u S)", 7, "worst_error", 1, 2},
    TableColumn{"rms", "(u S)", 7, "rms_error", 1, 2},
    TableColumn{"worst", "(ulp)", 9, "worst_ulp", 1, 1},
    TableColumn{"rms", "(ulp)", 8, "rms_ulp", 1, 2},
    TableColumn{"crit", "(ns)", 11, "crit_ns", 1, 1},
    TableColumn{"#wrong", "", 7, "wrong"},
};

// The levels that a second table compares; none beside named algorithms, unless they are asked for.
std::vector<Reproducible> find_levels(const Settings& settings) {
  if (settings.is_set("algorithm") && !settings.is_set("reproducible")) return {};
  return settings.choices("reproducible", kReproducibleLevels);
}

void run_numerics(Bench& bench) {
  check_rank_is_sip(bench);
  if (distributed::least_reproducible_by_environment() != Reproducible::run) {
    throw UsageError("KB-U013",
                     "the bench numerics compares the levels of Reproducible itself: unset "
                     "KERNBENCH_BATCH_INVARIANT, KERNBENCH_WORLD_INVARIANT and "
                     "KERNBENCH_RANK_INVARIANT");
  }
  const Settings& settings = bench.settings();
  const Bytes bytes = settings.bytes("bytes", size_of(DType::f32), kMostBytes);
  const std::vector<DType> dtypes = settings.choices("dtype", kDTypes);
  Sweep sweep(bench, "numerics");
  for (const std::int64_t ranks : settings.integers("ranks", 1, kMostRanks)) {
    const Topology topology = with_ranks(bench.topology(), static_cast<int>(ranks));
    for (const ccl::Algorithm* const algorithm : find_algorithms(settings, topology)) {
      sweep.add(fmt::format("{} over {} ranks", algorithm->name, ranks),
                [of = Case{topology, algorithm, dtypes, bytes}](PointContext& point) {
                  return run_case(point, of);
                });
    }
  }
  const std::vector<Reproducible> levels = find_levels(settings);
  Sweep of_levels(bench, "levels");
  for (const std::int64_t ranks : settings.integers("ranks", 1, kMostRanks)) {
    if (levels.empty()) break;
    const Topology topology = with_ranks(bench.topology(), static_cast<int>(ranks));
    for (const DType dtype : dtypes) {
      const SumCall call{.ranks = static_cast<int>(ranks),
                         .dtype = dtype,
                         .count = bytes / size_of(dtype),
                         .seed = bench.seed()};
      of_levels.add(fmt::format("levels of {} over {} ranks", name_of(dtype), ranks),
                    [=](PointContext& point) { return run_levels(point, topology, call, levels); });
    }
  }
  std::vector<Topology> worlds = {with_ranks(bench.topology(), 1)};
  for (const std::int64_t ranks : settings.integers("ranks", 1, kMostRanks)) {
    if (ranks == 1 || !is_world_of_training(ranks)) continue;
    worlds.push_back(with_ranks(bench.topology(), static_cast<int>(ranks)));
  }
  Sweep of_training(bench, "training");
  const bool trains = !settings.is_set("algorithm") || settings.is_set("training");
  for (const Scheme scheme : settings.choices("training", kSchemes)) {
    if (!trains) break;
    of_training.add(fmt::format("training by {}", name_of(scheme)), [=](PointContext& point) {
      return run_training(point, worlds, scheme);
    });
  }
  const std::vector<Row> rows = sweep.run();
  bench.print(
      "#\n#   u is half the distance from 1 to the next number, S the sum of an element's |x|; "
      "bound: "
      "how many\n#   additions follow each other; vary: elements whose bits other elements' trees "
      "would change\n#\n" +
      table_head(kColumns));
  for (const Row& row : rows) bench.print(table_line(kColumns, row, bench.run().console));
  if (!levels.empty()) print_levels(bench, of_levels.run());
  if (trains) print_training(bench, of_training.run());
}

}  // namespace

BenchInfo numerics_bench() {
  return {
      "numerics",
      "errors of sums over ranks beside the bound that the order of additions gives",
      {{"ranks", "4,8,16", "SIPs in a network of the topology's kind, a list",
        SettingType::integers},
       {"algorithm", "", "of all_reduce, a list; else all that can run there", SettingType::names},
       {"dtype", "f32,bf16", "f16, bf16 or f32, a list", SettingType::names},
       {"bytes", "16KiB", "what each rank gives", SettingType::size},
       {"reproducible", "run,batch,pairs,ranks",
        "of sums whose price a second table has, a list; none beside `algorithm`",
        SettingType::names},
       {"training", "ddp,fsdp2,tp",
        "with the same bits on all ranks that divide 16, whose price a third table has, a list; "
        "none beside `algorithm`",
        SettingType::names}},
      run_numerics,
      nullptr,
      BenchRanks::own};
}

}  // namespace kernbench::benches::numerics
