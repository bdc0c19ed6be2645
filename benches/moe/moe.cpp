#include "benches/moe/moe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/bench/peak_flops.h"
#include "benches/bench/table.h"
#include "benches/moe/measured_moe.h"
#include "benches/train/model_settings.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::moe {

namespace {

constexpr std::array kColumns = {
    TableColumn{"routing", "", -13, "routing"},
    TableColumn{"ranks", "", 5, "ranks"},
    TableColumn{"time", "(us)", 8, "time_ns", 1e-3, 1},
    TableColumn{"dispatch", "(us)", 8, "dispatch_ns", 1e-3, 1},
    TableColumn{"read", "(us)", 6, "read_ns", 1e-3, 1},
    TableColumn{"experts", "(us)", 8, "experts_ns", 1e-3, 1},
    TableColumn{"combine", "(us)", 8, "combine_ns", 1e-3, 1},
    TableColumn{"load", "max", 7, "load_max"},
    TableColumn{"over-", "load", 5, "overload_factor", 1, 2},
    TableColumn{"dropped", "(%)", 7, "dropped", 100, 1},
    TableColumn{"dispatch", "(GB/s)", 8, "dispatch_gbs", 1, 1},
    TableColumn{"combine", "(GB/s)", 8, "combine_gbs", 1, 1},
    TableColumn{"links", "(MB)", 7, "link_mb", 1, 1},
    TableColumn{"peak", "(%)", 5, "utilization", 100, 1},
};

// A load that is refused is a wrong setting here.
template <class Use>
auto use_load(const Use& use) {
  try {
    return use();
  } catch (const CollectiveError& error) {
    throw UsageError("KB-U012", "--set routing: {}", error.what());
  }
}

bool is_trace(const RoutingLoad& load) {
  return load.name().starts_with("trace:");
}

MoeInput read_input(const Settings& settings) {
  const auto integer = [&](std::string_view key, std::int64_t least = 1) {
    return settings.integer(key, least, train::kMost);
  };
  MoeInput input{.tokens = integer("tokens"),
                 .hidden = integer("hidden"),
                 .ffn = integer("ffn"),
                 .experts = integer("experts"),
                 .top_k = integer("top_k"),
                 .shared = integer("shared", 0),
                 .pad = settings.flag("pad"),
                 .policy = settings.choice("policy", kernbench::moe::kDropPolicies),
                 .reader = settings.choice("read", kernbench::moe::kRoutingReaders),
                 .is_gated = settings.flag("gated"),
                 .has_backward = settings.flag("backward"),
                 .dtype = settings.choice("dtype", kDTypes)};
  if (!settings.text("capacity_factor").empty()) {
    input.capacity_factor = settings.number("capacity_factor", 0, 1e6);
  }
  if (input.pad && !input.capacity_factor) {
    throw UsageError("KB-U012", "--set pad: true wants a capacity_factor, to which it pads");
  }
  return input;
}

void check_point(const MoeInput& input) {
  if (input.experts % input.ranks != 0) {
    throw UsageError("KB-U012", "--set experts: {} are not divided by {} ranks", input.experts,
                     input.ranks);
  }
  if (input.top_k > input.experts) {
    throw UsageError("KB-U012", "--set top_k: {} of {} experts", input.top_k, input.experts);
  }
  const kernbench::moe::LoadShape shape = input.load_shape();
  const bool are_alike = input.load.tokens(shape, 0) == input.tokens &&
                         input.load.tokens(shape, input.ranks - 1) == input.tokens;
  if (input.pad && !are_alike) {
    throw UsageError("KB-U012", "--set pad: ranks of routing {} have unequal numbers of tokens",
                     input.load.name());
  }
}

std::vector<MoeInput> read_points(const Bench& bench) {
  const Settings& settings = bench.settings();
  MoeInput input = read_input(settings);
  input.seed = bench.seed();
  std::vector<MoeInput> points;
  for (const std::int64_t ranks : settings.integers("ranks", 1, train::kMostRanks)) {
    input.ranks = static_cast<int>(ranks);
    input.on = train::read_pes(settings, bench.topology(), input.tokens);
    for (const std::string_view text : settings.list("routing")) {
      input.load = use_load([&] { return RoutingLoad::parse(text); });
      check_point(input);
      for (const std::int64_t step : settings.integers("step", 0, train::kMost)) {
        input.step = step;
        // Its lines are read as far as they are used.
        if (is_trace(input.load))
          use_load([&] { return expert_loads(input.load, input.load_shape()); });
        points.push_back(input);
      }
    }
  }
  return points;
}

// DeepEP's: all rows count, also those that stay on their rank, and those that are dropped.
double bandwidth(double bytes, Time time) {
  return time.count() == 0 ? 0 : bytes / to_ns(time);
}

// "W6 step 3"; the first step goes without saying, and so does a trace's folder.
std::string label_of(const MoeInput& input) {
  const std::string& name = input.load.name();
  const std::string shown =
      is_trace(input.load) ? "trace:" + std::filesystem::path(name).filename().string() : name;
  return input.step == 0 ? shown : fmt::format("{} step {}", shown, input.step);
}

Row point_row(const MoeInput& input, const MeasuredMoe& measured, const Topology& topology) {
  std::vector<std::int64_t> loads;
  std::int64_t tokens = 0;
  std::int64_t kept = 0;
  for (const MoeRank& rank : measured.ranks) {
    loads.push_back(rank.rows);
    tokens += rank.sizes.tokens;
    kept += rank.sizes.kept;
  }
  const auto slots = static_cast<double>(tokens * input.top_k);
  const double bytes = slots / input.ranks * static_cast<double>(input.hidden) *
                       static_cast<double>(size_of(input.dtype));
  const auto rows =
      static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  const double peak = peak_flops(topology, input.on.count()).value_or(0);
  const double experts = to_ns(measured.experts());
  std::optional<double> utilization;
  if (peak > 0 && experts > 0) {
    const double of_shared = static_cast<double>(tokens * input.shared);
    // Padding is no work.
    utilization = (static_cast<double>(kept) + of_shared) / input.ranks * input.flops_of_row() /
                  (experts * 1e-9) / peak;
  }
  std::optional<std::int64_t> link_bytes;
  std::optional<double> link_mb;
  if (measured.link_bytes > 0) {
    link_bytes = measured.link_bytes / input.ranks;
    link_mb = static_cast<double>(*link_bytes) * 1e-6;
  }
  return Row()
      .set("routing", label_of(input))
      .set("ranks", input.ranks)
      .set("time_ns", to_ns(measured.time))
      .set("dispatch_ns", to_ns(measured.dispatch()))
      .set("read_ns", to_ns(measured.host_reads()))
      .set("experts_ns", experts)
      .set("combine_ns", to_ns(measured.combine()))
      .set("load_avg", rows / input.ranks)
      .set("load_max", std::ranges::max(loads))
      .set("overload_factor", kernbench::moe::overload_factor(loads))
      .set("dropped", slots > 0 ? 1 - static_cast<double>(kept) / slots : 0)
      .set("dispatch_gbs", bandwidth(bytes, measured.dispatch()))
      .set("combine_gbs", bandwidth(bytes, measured.combine()))
      .set("link_bytes", link_bytes)
      .set("link_mb", link_mb)
      .set("utilization", utilization);
}

void describe_run(Bench& bench, const MoeInput& first) {
  bench.note("layer",
             fmt::format("{} experts of {} x {}{}, {} for each token{}, {}", first.experts,
                         first.hidden, first.ffn, first.is_gated ? ", gated" : "", first.top_k,
                         first.shared > 0 ? fmt::format(", {} shared", first.shared) : "",
                         name_of(first.dtype)));
  bench.note("tokens",
             fmt::format("{} a rank{}", first.tokens, first.has_backward ? ", with backward" : ""));
  bench.note("capacity",
             first.capacity_factor
                 ? fmt::format("{} times the mean{}; without values the last ones are dropped{}",
                               *first.capacity_factor, first.pad ? ", padded" : "",
                               first.policy == DropPolicy::probs ? ", and weights are read" : "")
                 : "none: nothing is dropped");
  bench.note("routing",
             first.reader == RoutingReader::host
                 ? "the host reads the choice over its link: `read` is a part of dispatch"
                 : "read by nobody: what a host would wait for is not charged");
  bench.note("ranks", "each point has as many of these SIPs as ranks");
  bench.note("device", train::describe(first.on, bench.topology()));
  bench.note("links", "bytes between SIPs, of a rank on average");
  bench.note("bandwidth",
             "DeepEP's: tokens x top_k x hidden bytes over the time, local and dropped rows too");
  bench.note("peak", "of the experts' products: rows that are kept, and those of shared experts");
}

void run_moe(Bench& bench) {
  check_rank_is_sip(bench);
  check_ranks_begin_together(bench);
  const std::vector<MoeInput> points = read_points(bench);
  describe_run(bench, points.front());
  Sweep sweep(bench, "moe");
  for (const MoeInput& input : points) {
    sweep.add(
        fmt::format("ranks {} {}", input.ranks, label_of(input)), [input](PointContext& point) {
          return std::vector{point_row(input, measure_moe(point, input), point.bench().topology())};
        });
  }
  const std::vector<Row> rows = sweep.run();
  bench.print("#\n" + table_head(kColumns));
  for (const Row& row : rows) bench.print(table_line(kColumns, row, bench.run().console));
}

}  // namespace

BenchInfo moe_bench() {
  return {"moe",
          "a layer of experts that ranks share: tokens sent to them and back, under loads",
          {{"routing", "W0,W1,W2,W3",
            "W0 balanced, W1 hot experts, W2 hot rank, W3 spread, W4 ragged, W5 idle ranks, W6 "
            "rotating, W7 burst, lognormal:SIGMA, trace:FILE, a list",
            SettingType::names},
           {"ranks", "4", "that share the experts, a list", SettingType::integers},
           {"tokens", "1024", "of each rank", SettingType::integer},
           {"hidden", "1024", "features of a token", SettingType::integer},
           {"ffn", "512", "features inside of an expert", SettingType::integer},
           {"experts", "32", "on all ranks", SettingType::integer},
           {"top_k", "4", "experts of a token", SettingType::integer},
           {"shared", "0", "experts that all tokens go to", SettingType::integer},
           {"gated", "true", "false: two products an expert and relu", SettingType::flag},
           {"capacity_factor", "", "an expert takes so many times the mean at most; else all",
            SettingType::number},
           {"pad", "false", "true: each expert gets as many rows as it takes", SettingType::flag},
           {"policy", "probs",
            "probs, position: both drop the last, without values; probs has the weights read, "
            "timed",
            SettingType::name},
           {"read", "host", "host: it reads the choice, timed; device: nothing is charged",
            SettingType::name},
           {"step", "0", "of the load, a list", SettingType::integers},
           {"backward", "false", "true: the gradients too", SettingType::flag},
           {"dtype", "bf16", "f16, bf16 or f32", SettingType::name},
           {"cubes", "", "of each SIP that share its rank's tokens; else as many as these fill",
            SettingType::integer},
           {"pes", "", "of each of these cubes, likewise", SettingType::integer}},
          run_moe,
          nullptr,
          BenchRanks::own};
}

}  // namespace kernbench::benches::moe
