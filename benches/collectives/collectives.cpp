// collectives: nccl-tests' table for each collective of torch.distributed, over a range of sizes.

#include "benches/collectives/collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "benches/bench/bench.h"
#include "benches/bench/sweep.h"
#include "benches/collectives/measured_collective.h"
#include "benches/collectives/nccl_table.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

constexpr Bytes kLargestSize = Bytes{1} << 36;
constexpr int kMostIterations = 1000;
constexpr std::array kShards = {Shard::replicate, Shard::row_wise, Shard::column_wise};

enum class BackendName : std::uint8_t { ahbm, local };
constexpr std::array kBackends = {BackendName::ahbm, BackendName::local};
std::string_view name_of(BackendName backend) {
  return backend == BackendName::ahbm ? "ahbm" : "local";
}

// nccl-tests' names of torch's sum, avg, product, min and max.
enum class Redop : std::uint8_t { sum, avg, prod, min, max };
constexpr std::array kRedops = {Redop::sum, Redop::avg, Redop::prod, Redop::min, Redop::max};
std::string_view name_of(Redop redop) {
  constexpr std::array<std::string_view, kRedops.size()> kNames = {"sum", "avg", "prod", "min",
                                                                   "max"};
  return kNames.at(static_cast<std::size_t>(redop));
}
ReduceOp op_of(Redop redop) {
  constexpr std::array kOps = {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min,
                               ReduceOp::max};
  return kOps.at(static_cast<std::size_t>(redop));
}

// The common input of all points, and the sizes in which they differ.
struct Plan {
  MeasuredInput input;  // without the collective and the count
  std::vector<MeasuredCollective> collectives;
  std::vector<Bytes> sizes;
  Bytes check_end = 0;  // larger ones are timed only
};

std::vector<MeasuredCollective> collectives_of(const Settings& settings) {
  if (settings.text("collective") != "all") {
    return settings.choices("collective", kMeasuredCollectives);
  }
  return {kMeasuredCollectives.begin(), kMeasuredCollectives.end()};
}

constexpr std::size_t kMostSizes = 10'000;

std::vector<Bytes> sizes_of(const Settings& settings) {
  const Bytes begin = settings.bytes("begin", 1, kLargestSize);
  const Bytes end = settings.bytes("end", begin, kLargestSize);
  const std::int64_t factor = settings.integer("factor", 2, kLargestSize);
  if (settings.is_set("step") && settings.is_set("factor")) {
    throw UsageError("KB-U012",
                     "--set step: sizes grow by a step or by a factor; give one of them");
  }
  const Bytes step = settings.is_set("step") ? settings.bytes("step", 1, kLargestSize) : 0;
  std::vector<Bytes> sizes;
  for (Bytes size = begin; size <= end; size = step > 0 ? size + step : size * factor) {
    sizes.push_back(size);
    if (sizes.size() > kMostSizes) {
      throw UsageError("KB-U012", fmt::format("--set step: more than {} sizes from {} to {} B",
                                              kMostSizes, begin, end));
    }
    if (step == 0 && size > end / factor) break;
  }
  return sizes;
}

std::vector<int> members_of(const Bench& bench) {
  if (!bench.settings().is_set("group")) return {};
  std::vector<int> members;
  for (const std::int64_t rank :
       bench.settings().integers("group", 0, bench.topology().system.sip_count - 1)) {
    members.push_back(static_cast<int>(rank));
  }
  std::ranges::sort(members);  // as new_group() does
  return members;
}

DPPolicy placement_of(const Bench& bench) {
  const Settings& settings = bench.settings();
  if (bench.ccl().participants() == ccl::Participants::one_pe_per_sip) {
    return DPPolicy::replicated();
  }
  return {.cube = settings.choice("cube", kShards), .pe = settings.choice("pe", kShards)};
}

Plan plan_of(const Bench& bench) {
  const Settings& settings = bench.settings();
  Plan plan;
  plan.input.members = members_of(bench);
  plan.input.backend = name_of(settings.choice("backend", kBackends));
  plan.input.placement = placement_of(bench);
  plan.input.repetitions = static_cast<int>(settings.integer("iters", 1, kMostIterations));
  BlocksInput& blocks = plan.input.blocks;
  blocks.ranks = plan.input.members.empty() ? bench.topology().system.sip_count
                                            : static_cast<int>(plan.input.members.size());
  blocks.root = static_cast<int>(settings.integer("root", 0, blocks.ranks - 1));
  blocks.op = op_of(settings.choice("redop", kRedops));
  blocks.dtype = settings.choice("dtype", kDTypes);
  blocks.seed = bench.seed();
  plan.collectives = collectives_of(settings);
  plan.sizes = sizes_of(settings);
  const Bytes check_end = settings.bytes("check_end", 0, kLargestSize);
  plan.check_end = settings.flag("check") ? check_end : 0;
  return plan;
}

// The elements of a block.  Like nccl-tests, it rounds the size down to a multiple that divides
// equally among the ranks.
std::int64_t count_of(const BlocksInput& blocks, Bytes size) {
  return size / size_of(blocks.dtype) / spec_of(blocks.collective).blocks_in_size(blocks.ranks);
}

Measurement measure_on(PointContext& point, const MeasuredInput& input, bool has_data) {
  const Bench& bench = point.bench();
  const auto torch = point.make_context(bench.topology(), {.ccl = bench.ccl(), .data = has_data});
  return measure(*torch, input);
}

// Measures one form.  Repetitions are timed without values, since each would begin with the results
// of the previous one.
Measurement measure_place(PointContext& point, MeasuredInput input, bool in_place, bool checked) {
  input.in_place = in_place;
  Measurement measured = measure_on(point, input, checked && input.repetitions == 1);
  if (checked && !measured.wrong) {
    input.repetitions = 1;
    measured.wrong = measure_on(point, input, true).wrong;
  }
  point.check(measured.wrong.value_or(0) == 0);
  return measured;
}

Row simulate(PointContext& point, const MeasuredInput& input, Bytes check_end) {
  NcclRow row{input, {}, {}};
  const bool checked = row.size() <= check_end;
  const CollectiveSpec& spec = spec_of(input.blocks.collective);
  if (spec.out_of_place) row.out_of_place = measure_place(point, input, false, checked);
  if (spec.in_place) row.in_place = measure_place(point, input, true, checked);
  return to_row(row);
}

// Adds the points of a collective; returns their number.
std::size_t add_points(Sweep& sweep, const Plan& plan, MeasuredCollective collective) {
  MeasuredInput input = plan.input;
  input.blocks.collective = collective;
  std::size_t added = 0;
  std::int64_t last_count = 0;
  for (const Bytes size : plan.sizes) {
    input.blocks.count = count_of(input.blocks, size);
    if (input.blocks.count == last_count) continue;  // empty, or the same as before
    last_count = input.blocks.count;
    sweep.add(fmt::format("{} of {} B", name_of(collective), NcclRow{input, {}, {}}.size()),
              [input, check_end = plan.check_end](PointContext& point) {
                return simulate(point, input, check_end);
              });
    ++added;
  }
  return added;
}

void note_what_runs(Bench& bench, const Plan& plan) {
  const MeasuredInput& input = plan.input;
  bench.note("backend", input.backend);
  bench.note("group", input.members.empty()
                          ? fmt::format("all {} ranks", input.blocks.ranks)
                          : fmt::format("ranks {}", fmt::join(input.members, ", ")));
  bench.note("tensors", fmt::format("{{1, count}} {}, {}", name_of(input.blocks.dtype),
                                    to_string(input.placement)));
}

void run_collectives(Bench& bench) {
  bench.check_rank_is_sip();
  const Plan plan = plan_of(bench);
  note_what_runs(bench, plan);
  Sweep sweep(bench, "collectives");
  std::vector<std::size_t> counts;
  for (const MeasuredCollective collective : plan.collectives) {
    counts.push_back(add_points(sweep, plan, collective));
  }
  if (std::ranges::all_of(counts, [](std::size_t count) { return count == 0; })) {
    throw UsageError("KB-U012", fmt::format("--set end: {} B leave no element for each of {} ranks",
                                            plan.sizes.back(), plan.input.blocks.ranks));
  }
  const std::vector<Row> rows = sweep.run();
  std::size_t first = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    print_nccl_table(bench, plan.collectives[i], std::span(rows).subspan(first, counts[i]));
    first += counts[i];
  }
}

}  // namespace

bool register_collectives() {
  return register_bench(
      {"collectives",
       "nccl-tests' table for each collective, every element checked",
       {{"collective", "all_reduce",
         "all, or a list: all_reduce, all_gather, reduce_scatter, broadcast, reduce, "
         "all_to_all, gather, scatter, sendrecv"},
        {"begin", "8", "the smallest size: 8, 64Ki, 1Mi"},
        {"end", "64Mi", "no size is larger"},
        {"factor", "2", "from a size to the next"},
        {"step", "", "bytes from a size to the next, instead of a factor"},
        {"dtype", "f32", "f16, bf16 or f32"},
        {"redop", "sum", "sum, avg, prod, min or max"},
        {"root", "0", "rank in the group"},
        {"iters", "1", "one after the other; the mean time is shown"},
        {"backend", "ahbm", "ahbm, or local, which has no times"},
        {"group", "", "a list of ranks that take part; else all"},
        {"check", "1", "0: times only, no values"},
        {"check_end", "4Mi", "larger sizes are timed only"},
        {"cube", "column_wise", "over cubes a tensor lies replicate, row_wise or column_wise"},
        {"pe", "column_wise", "over the PEs of a cube, likewise"}},
       run_collectives,
       nullptr});
}

}  // namespace kernbench::benches
