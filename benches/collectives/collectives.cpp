// collectives: nccl-tests' table for each collective of torch.distributed, over a range of sizes.

#include "benches/collectives/collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "benches/bench/bench.h"
#include "benches/collectives/collective_table.h"
#include "benches/collectives/group_split.h"
#include "benches/collectives/measured_collective.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::collectives {

namespace {

constexpr Bytes kLargestSize = Bytes{1} << 36;
constexpr double kLeastFactor = 1.01;
constexpr double kLargestFactor = 1e9;
constexpr int kMostIterations = 1000;
constexpr std::array kShards = {Shard::replicate, Shard::row_wise, Shard::column_wise};

enum class BackendName : std::uint8_t { ahbm, local };
constexpr std::array kBackends = {BackendName::ahbm, BackendName::local};
std::string_view name_of(BackendName backend) {
  return backend == BackendName::ahbm ? "ahbm" : "local";
}

// A reduction by nccl-tests' name.
struct Redop {
  ReduceOp op;
};
constexpr std::array kRedops = {Redop{ReduceOp::sum}, Redop{ReduceOp::avg},
                                Redop{ReduceOp::product}, Redop{ReduceOp::min},
                                Redop{ReduceOp::max}};
std::string_view name_of(Redop redop) {
  return redop_name({.collective = MeasuredCollective::all_reduce, .op = redop.op});
}

// The common input of all points, and the sizes in which they differ.
struct Plan {
  MeasuredInput input;  // without the collective and the count; members are the first group's
  std::vector<std::vector<int>> groups;  // that run at once; none: there is one
  std::vector<MeasuredCollective> collectives;
  std::vector<Bytes> sizes;
  Bytes check_end = 0;  // larger ones are timed only
};

// True of a collective that one driver can call for all ranks: each of them has tensors of the same
// shapes, and no peers of its own.
bool has_driver_call(MeasuredCollective collective) {
  return collective != MeasuredCollective::gather && collective != MeasuredCollective::scatter &&
         collective != MeasuredCollective::sendrecv;
}

std::vector<MeasuredCollective> read_collectives(const Bench& bench) {
  const bool is_all = bench.settings().text("collective") == "all";
  std::vector<MeasuredCollective> collectives(kMeasuredCollectives.begin(),
                                              kMeasuredCollectives.end());
  if (!is_all) collectives = bench.settings().choices("collective", kMeasuredCollectives);
  if (!bench.ccl().world_size()) return collectives;
  const auto refused = std::ranges::find_if_not(collectives, has_driver_call);
  if (is_all) {
    std::erase_if(collectives, [](MeasuredCollective one) { return !has_driver_call(one); });
  } else if (refused != collectives.end()) {
    throw UsageError("KB-U012",
                     "--set collective: {} works between SIPs only, and PEs are the ranks "
                     "(world_size); leave one of them out",
                     name_of(*refused));
  }
  return collectives;
}

constexpr std::size_t kMostSizes = 10'000;

std::vector<Bytes> read_sizes(const Settings& settings) {
  const Bytes begin = settings.bytes("begin", 1, kLargestSize);
  const Bytes end = settings.bytes("end", begin, kLargestSize);
  const double factor = settings.number("factor", kLeastFactor, kLargestFactor);
  if (settings.is_set("step") && settings.is_set("factor")) {
    throw UsageError("KB-U012",
                     "--set step: sizes grow by a step or by a factor; give one of them");
  }
  const Bytes step = settings.is_set("step") ? settings.bytes("step", 1, kLargestSize) : 0;
  std::vector<Bytes> sizes;
  double size = static_cast<double>(begin);  // exact: sizes are below 2^53
  while (size <= static_cast<double>(end)) {
    sizes.push_back(static_cast<Bytes>(size));
    if (sizes.size() > kMostSizes) {
      throw UsageError("KB-U012", "--set step: more than {} sizes from {} to {} B", kMostSizes,
                       begin, end);
    }
    size = step > 0 ? size + static_cast<double>(step) : size * factor;
  }
  return sizes;
}

std::vector<int> read_group(const Bench& bench) {
  if (!bench.settings().is_set("group")) return {};
  std::vector<int> members;
  for (const std::int64_t rank :
       bench.settings().integers("group", 0, bench.topology().system.sip_count - 1)) {
    members.push_back(static_cast<int>(rank));
  }
  std::ranges::sort(members);  // as new_group() does
  return members;
}

std::vector<std::vector<int>> read_groups(const Bench& bench) {
  const Settings& settings = bench.settings();
  if (!settings.is_set("groups")) return {};
  if (settings.is_set("group")) {
    throw UsageError("KB-U012",
                     "--set groups: divides all ranks, and group= chooses some; give one of them");
  }
  return split_ranks(settings.text("groups"), bench.topology().system.sip_count);
}

// Refuses what one driver of all PEs has no use for: PEs have a shard each, and all take part.
void check_settings_of_pes(const Bench& bench) {
  for (const std::string_view key : {"group", "groups", "backend", "cube", "pe"}) {
    if (!bench.settings().is_set(key)) continue;
    throw UsageError("KB-U012",
                     "--set {}: means nothing where PEs are the ranks (world_size); leave it out",
                     key);
  }
}

// Refuses a setting that none of the collectives has.
void check_is_used(const Settings& settings, std::string_view key, const Plan& plan,
                   bool CollectiveSpec::*has) {
  if (!settings.is_set(key)) return;
  const auto uses = [&](MeasuredCollective one) { return spec_of(one).*has; };
  if (std::ranges::any_of(plan.collectives, uses)) return;
  throw UsageError("KB-U012", "--set {}: {} has none; leave it out", key,
                   name_of(plan.collectives.front()));
}

DPPolicy read_placement(const Bench& bench) {
  const Settings& settings = bench.settings();
  if (bench.ccl().participants() == ccl::Participants::one_pe_per_sip) {
    return DPPolicy::on_one_pe();
  }
  return {.cube = settings.choice("cube", kShards), .pe = settings.choice("pe", kShards)};
}

Plan read_plan(const Bench& bench) {
  const Settings& settings = bench.settings();
  Plan plan;
  if (bench.ccl().world_size()) check_settings_of_pes(bench);
  plan.collectives = read_collectives(bench);
  check_is_used(settings, "root", plan, &CollectiveSpec::has_root);
  check_is_used(settings, "redop", plan, &CollectiveSpec::reduces);
  plan.groups = read_groups(bench);
  plan.input.members = plan.groups.empty() ? read_group(bench) : plan.groups.front();
  plan.input.backend = name_of(settings.choice("backend", kBackends));
  plan.input.placement = read_placement(bench);
  plan.input.repetitions = static_cast<int>(settings.integer("iters", 1, kMostIterations));
  BlocksInput& blocks = plan.input.blocks;
  const int all = bench.ccl().world_size().value_or(bench.topology().system.sip_count);
  blocks.ranks = plan.input.members.empty() ? all : static_cast<int>(plan.input.members.size());
  blocks.root = static_cast<int>(settings.integer("root", 0, blocks.ranks - 1));
  blocks.op = settings.choice("redop", kRedops).op;
  blocks.dtype = settings.choice("dtype", kDTypes);
  blocks.seed = bench.seed();
  plan.sizes = read_sizes(settings);
  const Bytes check_end = settings.bytes("check_end", 0, kLargestSize);
  plan.check_end = settings.flag("check") ? check_end : 0;
  return plan;
}

// The elements of a block.  Like nccl-tests, it rounds the size down to a multiple that divides
// equally among the ranks.
std::int64_t round_to_count(const BlocksInput& blocks, Bytes size) {
  return size / size_of(blocks.dtype) / spec_of(blocks.collective).blocks_in_size(blocks.ranks);
}

using Measurements = std::vector<Measurement>;  // by group

// True if all SIPs call the same collective, without a root.
bool are_alike(std::span<const MeasuredInput> groups, const Bench& bench) {
  const MeasuredInput& input = groups.front();
  const MeasuredCollective collective = input.blocks.collective;
  const bool is_of_pairs =
      collective == MeasuredCollective::shift || collective == MeasuredCollective::sendrecv;
  return groups.size() == 1 && input.backend == "ahbm" && !is_of_pairs &&
         !spec_of(collective).has_root && !bench.ccl().world_size() &&
         input.blocks.ranks == bench.topology().system.sip_count;
}

Measurements measure_on(PointContext& point, std::span<const MeasuredInput> groups,
                        RuntimeOptions options) {
  const Bench& bench = point.bench();
  options.ccl = bench.ccl();
  options.fold = are_alike(groups, bench) ? 1 : 0;
  const auto torch = point.make_context(bench.topology(), std::move(options));
  return measure_at_once(*torch, groups);
}

// Measures one form.  Repetitions are timed without values, since each would begin with the results
// of the previous one.
Measurements measure_place(PointContext& point, std::vector<MeasuredInput> groups, bool in_place,
                           bool checked) {
  for (MeasuredInput& input : groups) input.in_place = in_place;
  const bool at_once = checked && groups.front().repetitions == 1;
  Measurements all = measure_on(point, groups, {.data = at_once});
  if (checked && !at_once) {
    for (MeasuredInput& input : groups) input.repetitions = 1;
    const Measurements with_values = measure_on(point, groups, {.energy = false});
    for (std::size_t i = 0; i < all.size(); ++i) all[i].wrong = with_values[i].wrong;
  }
  for (const Measurement& measured : all) point.check(measured.wrong.value_or(0) == 0);
  return all;
}

std::optional<Measurement> measurement_at(const Measurements& all, std::size_t index) {
  return all.empty() ? std::nullopt : std::optional(all[index]);
}

// A row for each group.
std::vector<Row> simulate(PointContext& point, const std::vector<MeasuredInput>& groups,
                          Bytes check_end, bool beside_alone) {
  const BlocksInput& blocks = groups.front().blocks;
  const bool checked = blocks.bytes() <= check_end;
  const CollectiveSpec& spec = spec_of(blocks.collective);
  Measurements out_of_place;
  Measurements in_place;
  if (spec.out_of_place) out_of_place = measure_place(point, groups, false, checked);
  const bool has_one_driver = point.bench().ccl().world_size().has_value();
  // A driver's blocks of all ranks are a tensor each, in none of which every rank has its own.
  const bool in_result = spec.in_place && !(has_one_driver && spec.out_of_place);
  if (in_result) in_place = measure_place(point, groups, true, checked);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto out = measurement_at(out_of_place, i);
    const auto in = measurement_at(in_place, i);
    rows.push_back(to_row(groups[i], out, in));
    if (!beside_alone) continue;
    const Measurement alone = measure_place(point, {groups[i]}, !spec.out_of_place, false).front();
    add_alone(rows.back(), groups[i], out ? *out : in.value(), alone);
  }
  return rows;
}

// Adds the points of a collective; returns the number of their rows.
std::size_t add_points(Sweep& sweep, const Plan& plan, MeasuredCollective collective) {
  MeasuredInput input = plan.input;
  input.blocks.collective = collective;
  std::size_t added = 0;
  std::int64_t last_count = 0;
  for (const Bytes size : plan.sizes) {
    input.blocks.count = round_to_count(input.blocks, size);
    if (input.blocks.count == last_count) continue;  // empty, or the same as before
    last_count = input.blocks.count;
    std::vector<MeasuredInput> groups(std::max<std::size_t>(plan.groups.size(), 1), input);
    for (std::size_t i = 0; i < plan.groups.size(); ++i) groups[i].members = plan.groups[i];
    added += groups.size();
    sweep.add(
        fmt::format("{} of {} B", name_of(collective), input.blocks.bytes()),
        [groups = std::move(groups), check_end = plan.check_end, at_once = !plan.groups.empty()](
            PointContext& point) { return simulate(point, groups, check_end, at_once); });
  }
  return added;
}

std::string what_calls(const Plan& plan) {
  const MeasuredInput& input = plan.input;
  if (!plan.groups.empty()) {
    return fmt::format("{} of {} ranks each, all at once", plan.groups.size(), input.blocks.ranks);
  }
  return input.members.empty() ? fmt::format("all {} ranks", input.blocks.ranks)
                               : fmt::format("ranks {}", fmt::join(input.members, ", "));
}

void note_what_runs(Bench& bench, const Plan& plan) {
  const MeasuredInput& input = plan.input;
  bench.note("backend", input.backend);
  bench.note(plan.groups.empty() ? "group" : "groups", what_calls(plan));
  bench.note("tensors", fmt::format("{{1, count}} {}, {}", name_of(input.blocks.dtype),
                                    bench.ccl().world_size() ? "on each PE, one driver for all"
                                                             : to_string(input.placement)));
}

void run_collectives(Bench& bench) {
  const Plan plan = read_plan(bench);
  note_what_runs(bench, plan);
  Sweep sweep(bench, "collectives");
  std::vector<std::size_t> counts;
  for (const MeasuredCollective collective : plan.collectives) {
    counts.push_back(add_points(sweep, plan, collective));
  }
  if (std::ranges::all_of(counts, [](std::size_t count) { return count == 0; })) {
    throw UsageError("KB-U012", "--set end: {} B leave no element for each of {} ranks",
                     plan.sizes.back(), plan.input.blocks.ranks);
  }
  const std::vector<Row> rows = sweep.run();
  std::size_t first = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    CollectiveTable table(bench, plan.collectives[i],
                          plan.groups.empty() ? TableForm::both_places : TableForm::groups_at_once);
    for (const Row& row : std::span(rows).subspan(first, counts[i])) table.add(row);
    table.end();
    first += counts[i];
  }
}

std::vector<std::string_view> names_of_collectives() {
  std::vector<std::string_view> names;
  for (const MeasuredCollective one : kMeasuredCollectives) names.push_back(name_of(one));
  return names;
}

}  // namespace

BenchInfo collectives_bench() {
  return {"collectives",
          "nccl-tests' table for each collective, every element checked",
          {{"collective", "all_reduce",
            fmt::format("all, or a list: {}", fmt::join(names_of_collectives(), ", ")),
            SettingType::names},
           {"begin", "8", "the smallest size: 8, 64Ki, 1Mi", SettingType::size},
           {"end", "64Mi", "no size is larger", SettingType::size},
           {"factor", "2", "from a size to the next: 2, 1.25", SettingType::number},
           {"step", "", "bytes from a size to the next, instead of a factor", SettingType::size},
           {"dtype", "f32", "f16, bf16 or f32", SettingType::name},
           {"redop", "sum", "sum, avg, prod, min or max", SettingType::name},
           {"root", "0", "rank in the group", SettingType::integer},
           {"iters", "1", "one after the other; the mean time is shown", SettingType::integer},
           {"backend", "ahbm", "ahbm, or local, which has no times", SettingType::name},
           {"group", "", "a list of ranks that take part; else all", SettingType::integers},
           algorithm_setting(),
           world_size_setting(),
           {"groups", "", "mod:8: 8 groups at once, of every 8th rank; div:8: of 8 in a row",
            SettingType::name},
           {"check", "1", "0: times only, no values", SettingType::flag},
           {"check_end", "4Mi", "larger sizes are timed only", SettingType::size},
           {"cube", "column_wise", "over cubes a tensor lies replicate, row_wise or column_wise",
            SettingType::name},
           {"pe", "column_wise", "over the PEs of a cube, likewise", SettingType::name}},
          run_collectives,
          choose_algorithm_and_ranks};
}

}  // namespace kernbench::benches::collectives

namespace kernbench::benches {

bool register_collectives() {
  return register_bench(collectives::collectives_bench());
}

bool register_ccl_allreduce() {
  return register_bench(collectives::ccl_allreduce_bench());
}

}  // namespace kernbench::benches
