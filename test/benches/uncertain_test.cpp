// Runs with values drawn from ranges: samples, bands and rankings whose answers are known.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "benches/bench/bench.h"
#include "benches/bench/row_cells.h"
#include "benches/variants/latin_hypercube.h"
#include "benches/variants/ranking.h"
#include "benches/variants/uncertain_runs.h"
#include "benches/variants/variant_sweep.h"
#include "sim_engine/base/error.h"
#include "test/benches/bench_under_test.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::uncertain_test {

using namespace benches;
using Catch::Contains;
using variants::Band;
using variants::Contest;
using variants::Samples;
using variants::Variant;
using variants::VariantMaker;
using Words = std::vector<std::string>;

namespace {

double latency_ns(const Bench& bench) {
  return to_ns(bench.topology().system.sip_link.latency);
}

// Takes 2 latencies and 5 ns, and 3 ns more for each element.
const BenchInfo kLinear{
    "linear", "", {{"count", "1", "", SettingType::integer}}, [](Bench& bench) {
      bench.submit_sentinel();
      for (const int n_elem : {10, 20}) {
        bench.add_row(
            Row().set("n_elem", n_elem).set("time_ns", 2 * latency_ns(bench) + 5 + 3 * n_elem));
      }
    }};

// The ring takes 10 latencies; the tree 4 of them and 2520 ns: the ring is faster below 420 ns.
// Where `slow` is above 8, both take as much more.
const BenchInfo kCrossing{
    "crossing",
    "",
    {{"algorithm", "ring", "", SettingType::name}, {"slow", "1", "", SettingType::integer}},
    [](Bench& bench) {
      bench.submit_sentinel();
      const std::string& algorithm = bench.settings().text("algorithm");
      const double latency = latency_ns(bench);
      const double time = algorithm == "ring" ? 10 * latency : 4 * latency + 2520;
      bench.add_row(
          Row()
              .set("algorithm", algorithm)
              .set("steps", algorithm == "ring" ? 10 : 4)
              .set("time_ns", time * (bench.settings().integer("slow", 1, 16) > 8 ? 2 : 1)));
    }};

// The ring wins if one of two latencies is long and the other is not: neither decides alone.
const BenchInfo kEither{
    "either", "", {{"algorithm", "ring", "", SettingType::name}}, [](Bench& bench) {
      bench.submit_sentinel();
      const bool is_link_long = latency_ns(bench) > 500;
      const bool is_ucie_long = bench.topology().sip.ucie.latency > Time{50'000};
      const bool is_ring = bench.settings().text("algorithm") == "ring";
      const bool is_fast = (is_link_long != is_ucie_long) == is_ring;
      bench.add_row(Row()
                        .set("algorithm", bench.settings().text("algorithm"))
                        .set("time_ns", is_fast ? 1.0 : 2.0));
    }};

// These tests run the command without its command line.
struct Ran {
  Samples samples = {};
  std::vector<Row> rows = {};
  std::vector<Band> bands = {};
};

Ran run(const BenchInfo& info, const Words& set, const Words& ranges, std::size_t run_count,
        std::uint64_t seed = 0) {
  const VariantMaker maker({.bench = &info, .topologies = "tiny", .assignments = set});
  Ran ran{.samples = variants::draw_samples(
              variants::parse_ranges("--uncertain", ranges, maker.keys()), run_count, seed)};
  const std::vector<Variant> all = variants::uncertain_variants(maker, ran.samples);
  BenchRequest request = BenchUnderTest::request_of(1);
  request.recording = {};
  BenchUnderTest test(request);
  ran.rows = variants::run_variants(test.bench, "uncertain", info, all, {.goes_on = true});
  ran.bands = variants::make_bands(ran.rows, ran.samples, "time_ns");
  // The maker's keys are gone with it.
  for (variants::Range& range : ran.samples.ranges) {
    static std::vector<std::unique_ptr<variants::Key>> kept;
    kept.push_back(std::make_unique<variants::Key>(*range.key));
    range.key = kept.back().get();
  }
  return ran;
}

// The values of one range over the runs, as they are in the rows: whole ps.
std::vector<double> latencies_of(const Ran& ran) {
  std::vector<double> latencies;
  for (const std::vector<double>& values : ran.samples.runs) {
    latencies.push_back(std::round(values[0] * 1000) / 1000);
  }
  std::ranges::sort(latencies);
  return latencies;
}

}  // namespace

TEST_CASE("each of equal parts of a dimension has one point", "[uncertain]") {
  for (const std::size_t count : {1, 3, 50, 257}) {
    const auto points = variants::latin_hypercube(count, 4, 7);
    REQUIRE(points.size() == count);
    for (std::size_t dimension = 0; dimension < 4; ++dimension) {
      std::set<std::size_t> parts;
      for (const std::vector<double>& point : points) {
        parts.insert(static_cast<std::size_t>(point[dimension] * static_cast<double>(count)));
      }
      CHECK(parts.size() == count);
      CHECK(*parts.rbegin() == count - 1);
    }
  }
}

TEST_CASE("points depend on the seed, and dimensions do not depend on each other", "[uncertain]") {
  CHECK(variants::latin_hypercube(20, 3, 1) == variants::latin_hypercube(20, 3, 1));
  CHECK(variants::latin_hypercube(20, 3, 1) != variants::latin_hypercube(20, 3, 2));
  CHECK(variants::latin_hypercube(20, 3, 1) !=
        variants::latin_hypercube(20, 3, (std::uint64_t{1} << 32) + 1));
  const auto points = variants::latin_hypercube(20, 3, 1);
  const auto first = variants::latin_hypercube(20, 1, 1);
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(points[i][0] == first[i][0]);
    CHECK(points[i][0] != points[i][1]);
  }
}

TEST_CASE("whole numbers of a range are equally likely", "[uncertain]") {
  const VariantMaker maker({.bench = &kLinear, .topologies = "tiny"});
  const Samples samples = variants::draw_samples(
      variants::parse_ranges("--uncertain", {"depth=3..6"}, maker.keys()), 400, 0);
  std::map<double, int> counts;
  for (const std::vector<double>& values : samples.runs) ++counts[values[0]];
  CHECK(counts == std::map<double, int>{{3, 100}, {4, 100}, {5, 100}, {6, 100}});
}

TEST_CASE("times that are linear in a latency have the ends of its values", "[uncertain]") {
  const Ran ran = run(kLinear, {}, {"sip_link.latency=250..900ns", "ucie.latency=1..9ns"}, 50);
  const std::vector<double> latencies = latencies_of(ran);
  REQUIRE(ran.bands.size() == 2);
  for (const auto& [band, n_elem] : {std::pair(ran.bands[0], 10), std::pair(ran.bands[1], 20)}) {
    const double rest = 5 + 3 * n_elem;
    CHECK(band.name == fmt::format("n_elem {}", n_elem));
    CHECK(band.as_it_is == 2 * 300 + rest);
    CHECK(band.low() == 2 * latencies.front() + rest);
    CHECK(band.high() == 2 * latencies.back() + rest);
    CHECK(band.median() == Approx(latencies[24] + latencies[25] + rest).epsilon(1e-12));
    const auto dependence = variants::strongest_dependence(band, ran.samples);
    REQUIRE(dependence);
    CHECK(dependence->range == 0);
    CHECK(dependence->correlation == Approx(1));
  }
  CHECK(latencies.front() < 250 + 13);  // the first of 50 parts
  CHECK(latencies.back() > 900 - 13);
}

TEST_CASE("a run is the run with its values", "[uncertain]") {
  const Ran ran = run(kLinear, {}, {"sip_link.latency=250..900ns"}, 5);
  REQUIRE(ran.rows.size() == 2 * 6);
  const VariantMaker maker({.bench = &kLinear, .topologies = "tiny"});
  for (const Row& row : ran.rows) {
    const std::string& latency = text_in(row, "system.sip_link.latency");
    const VariantMaker alone({.bench = &kLinear,
                              .topologies = "tiny",
                              .assignments = {"system.sip_link.latency=" + latency}});
    const double time = 2 * to_ns(alone.first().topology.system.sip_link.latency) + 5 +
                        3 * number_in(row, "n_elem");
    CHECK(number_in(row, "time_ns") == time);
  }
  CHECK(number_in(ran.rows[0], "run") == 0);
  CHECK(text_in(ran.rows[0], "system.sip_link.latency") == "300 ns");
  CHECK(number_in(ran.rows[11], "run") == 5);
}

TEST_CASE("a crossing is found between the two values beside it", "[uncertain][ranking]") {
  const Ran ran = run(kCrossing, {"algorithm=ring,tree"},
                      {"ucie.latency=1..9ns", "sip_link.latency=250..900ns", "slow=1..16"}, 50);
  REQUIRE(ran.bands.size() == 2);
  CHECK(ran.bands[0].name == "ring");
  const std::vector<Contest> contests = variants::rank(ran.bands, ran.samples, "algorithm");
  REQUIRE(contests.size() == 1);
  const Contest& contest = contests.front();
  std::size_t ring_wins = 0;
  double below = 250;
  double above = 900;
  for (const std::vector<double>& values : ran.samples.runs) {
    ring_wins += values[1] < 420 ? 1 : 0;
    (values[1] < 420 ? below : above) =
        values[1] < 420 ? std::max(below, values[1]) : std::min(above, values[1]);
  }
  CHECK(contest.run_count == 50);
  CHECK(contest.wins.front() == std::pair(std::string("tree"), 50 - ring_wins));
  CHECK(contest.wins.back() == std::pair(std::string("ring"), ring_wins));
  REQUIRE(contest.split);
  CHECK(contest.split->range == 1);
  CHECK_FALSE(contest.split->wins_below);
  CHECK(contest.split->agreeing == 50);
  CHECK(contest.split->below == below);
  CHECK(contest.split->above == above);
  CHECK((below < 420 && 420 <= above));
  CHECK(contest.is_decided(3));
  CHECK_THAT(
      variants::to_text(contests, ran.samples, "algorithm"),
      Contains("tree iff system.sip_link.latency >= 4") && Contains("ns (50 of 50 runs agree)"));
}

TEST_CASE("who always wins needs no reason", "[uncertain][ranking]") {
  const Ran ran = run(kCrossing, {"algorithm=ring,tree"}, {"sip_link.latency=450..900ns"}, 20);
  const std::vector<Contest> contests = variants::rank(ran.bands, ran.samples, "algorithm");
  REQUIRE(contests.size() == 1);
  CHECK_FALSE(contests.front().split);
  CHECK(variants::to_text(contests, ran.samples, "algorithm") ==
        "#\n# the fastest algorithm\n# tree wins in 20 of 20\n");
}

TEST_CASE("where two values decide together, no single figure does", "[uncertain][ranking]") {
  const Ran ran = run(kEither, {"algorithm=ring,tree"},
                      {"sip_link.latency=100..900ns", "ucie.latency=10..90ns"}, 60);
  const std::vector<Contest> contests = variants::rank(ran.bands, ran.samples, "algorithm");
  REQUIRE(contests.size() == 1);
  REQUIRE(contests.front().split);
  CHECK(contests.front().split->agreeing < 48);
  CHECK_FALSE(contests.front().is_decided(2));
  CHECK_THAT(variants::to_text(contests, ran.samples, "algorithm"),
             Contains("; no single figure decides: s"));
}

TEST_CASE("a split that chance would find is not believed", "[uncertain][ranking]") {
  const auto contest = [](std::size_t won, std::size_t runs, std::size_t agreeing) {
    return Contest{.wins = {{"a", won}, {"b", runs - won}},
                   .run_count = runs,
                   .split = variants::Split{.agreeing = agreeing}};
  };
  CHECK(contest(31, 50, 49).is_decided(2));
  CHECK(contest(31, 50, 50).is_decided(2));
  CHECK_FALSE(contest(31, 50, 44).is_decided(2));  // more than a tenth disagree
  CHECK_FALSE(contest(47, 50, 48).is_decided(2));  // 2 of 3 are not explained
  CHECK_FALSE(contest(49, 50, 50).is_decided(2));  // one run of 50 is the first in some range
  CHECK_FALSE(contest(3, 5, 5).is_decided(2));     // 10 orders, 4 of which have a split
  const Samples samples =
      run(kLinear, {}, {"sip_link.latency=100..900ns,ucie.latency=1..9ns"}, 3).samples;
  const std::vector<Contest> one = {contest(49, 50, 50)};
  CHECK_THAT(variants::to_text(one, samples, "algorithm"),
             Contains("# a wins in 49 of 50, b in 1; too few to say what decides: ") &&
                 Contains(" agrees with 50 of 50\n"));
}

TEST_CASE("equal times have no winner", "[uncertain][ranking]") {
  Samples samples{.ranges = {}, .runs = {{}, {}, {}}};
  const auto band = [](const std::string& algorithm, std::vector<std::optional<double>> times) {
    return Band{.row = Row().set("algorithm", algorithm), .name = algorithm, .times = times};
  };
  const std::vector<Band> bands = {band("a", {1.0, 2.0, 3.0}), band("b", {1.0, 3.0, std::nullopt})};
  const std::vector<Contest> contests = variants::rank(bands, samples, "algorithm");
  REQUIRE(contests.size() == 1);
  CHECK(contests.front().run_count == 2);  // b has no time in the third
  CHECK(contests.front().tie_count == 1);
  CHECK(contests.front().wins.front() == std::pair(std::string("a"), std::size_t{1}));
}

TEST_CASE("a real number that is the same in all runs tells rows apart where nothing else does",
          "[uncertain]") {
  static const BenchInfo kBuckets{
      "buckets", "", {}, [](Bench& bench) {
        bench.submit_sentinel();
        for (const double bucket : {25.0, 2.5}) {
          bench.add_row(Row()
                            .set("bucket_mb", bucket)
                            .set("loss", 1 / latency_ns(bench))
                            .set("time_ns", latency_ns(bench) * bucket));
        }
      }};
  const Ran ran = run(kBuckets, {}, {"sip_link.latency=100..900ns"}, 4);
  REQUIRE(ran.bands.size() == 2);
  CHECK(ran.bands[0].name == "bucket_mb 25");
  CHECK(ran.bands[1].as_it_is == 300 * 2.5);
  CHECK(ran.bands[1].high() < ran.bands[0].high());
}

TEST_CASE("the same seed gives the same rows, another one others", "[uncertain]") {
  const Words ranges = {"sip_link.latency=250..900ns"};
  const auto csv = [&](std::uint64_t seed) {
    return to_csv(run(kLinear, {}, ranges, 8, seed).rows);
  };
  CHECK(csv(3) == csv(3));
  CHECK(csv(3) != csv(4));
}

TEST_CASE("runs that fail do not count", "[uncertain]") {
  static const BenchInfo kFails{"fails", "", {}, [](Bench& bench) {
                                  bench.submit_sentinel();
                                  if (latency_ns(bench) > 500) {
                                    throw UsageError("KB-U012", "it is too long");
                                  }
                                  bench.add_row(Row().set("time_ns", latency_ns(bench)));
                                }};
  const Ran ran = run(kFails, {}, {"sip_link.latency=100..900ns"}, 8);
  CHECK(variants::count_failed(ran.rows) == 4);
  REQUIRE(ran.bands.size() == 1);
  CHECK(ran.bands.front().high() <= 500);
  CHECK(std::ranges::count_if(ran.bands.front().times,
                              [](const auto& time) { return !time.has_value(); }) == 4);
}

TEST_CASE("an end that a file's reader refuses is named before anything runs",
          "[uncertain][errors]") {
  const VariantMaker maker({.bench = &kLinear, .topologies = "tiny"});
  const auto check = [&](const std::string& range) {
    return error_of<UsageError>([&] {
      variants::check_ends(maker, variants::parse_ranges("--uncertain", {range}, maker.keys()));
    });
  };
  CHECK(check("slot=4..64KiB") == "no error");
  CHECK_THAT(check("hbm.slices=1..2"), Says("KB-U012", "high end 2", "cube.hbm.slices"));
}

TEST_CASE("interrupted runs go on where they were", "[uncertain][journal]") {
  static std::set<std::string> simulated;
  static BenchRun* interrupted = nullptr;
  static const BenchInfo kInterrupted{"interrupted", "", {}, [](Bench& bench) {
                                        if (interrupted != nullptr && simulated.size() == 3)
                                          interrupted->interrupt();
                                        bench.submit_sentinel();
                                        simulated.insert(fmt::format("{}", latency_ns(bench)));
                                        bench.add_row(Row().set("time_ns", latency_ns(bench)));
                                      }};
  const TemporaryFolder folder;
  const VariantMaker maker({.bench = &kInterrupted, .topologies = "tiny"});
  const Samples samples = variants::draw_samples(
      variants::parse_ranges("--uncertain", {"sip_link.latency=400..900ns"}, maker.keys()), 6, 0);
  const std::vector<Variant> all = variants::uncertain_variants(maker, samples);
  const auto run_all = [&](bool interrupts) {
    BenchRequest request = BenchUnderTest::request_of(1);
    request.recording = {};
    request.output_folder = folder.path("out");
    request.inputs = maker.inputs();
    BenchUnderTest test(request);
    interrupted = interrupts ? &test.run : nullptr;
    simulated.clear();
    variants::run_variants(test.bench, "uncertain", kInterrupted, all);
    return test.results();
  };
  CHECK_THROWS_WITH(run_all(true), Contains("3 of 7 points of uncertain are finished"));
  const std::string resumed = run_all(false);
  CHECK(simulated.size() == 4);
  std::filesystem::remove_all(folder.path("out"));
  CHECK(run_all(false) == resumed);
  CHECK(simulated.size() == 7);
}

}  // namespace kernbench::test::uncertain_test
