// kernbench run --bench collectives.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "test/benches/program_json.h"

namespace kernbench::test::collectives_bench_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;

namespace {

ProgramResult run_bench(const std::vector<std::string>& settings,
                        std::vector<std::string> more = {"--json", "-"},
                        const ProgramOptions& options = {}) {
  std::vector<std::string> arguments = {"run",        "--bench",   "collectives",
                                        "--topology", "ring_1d_6", "--set"};
  arguments.insert(arguments.end(), settings.begin(), settings.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments, options);
}

Json rows_of(const std::vector<std::string>& settings) {
  return json_of(run_bench(settings))["rows"];
}

std::vector<std::int64_t> column(const Json& rows, const std::string& name) {
  std::vector<std::int64_t> values;
  for (const Json& row : rows) values.push_back(row[name].get<std::int64_t>());
  return values;
}

}  // namespace

TEST_CASE("a row of collectives has these columns, in this order", "[cli][collectives]") {
  const Json rows = rows_of({"collective=all_gather", "begin=960", "end=960"});
  REQUIRE(rows.size() == 1);
  const Json& row = rows[0];
  const std::vector<std::string> wanted = {"collective",
                                           "backend",
                                           "algorithm",
                                           "world_size",
                                           "bytes",
                                           "count",
                                           "dtype",
                                           "redop",
                                           "root",
                                           "out_of_place_time_ns",
                                           "out_of_place_algbw_gbs",
                                           "out_of_place_busbw_gbs",
                                           "out_of_place_wrong",
                                           "in_place_time_ns",
                                           "in_place_algbw_gbs",
                                           "in_place_busbw_gbs",
                                           "in_place_wrong",
                                           "bus_factor",
                                           "lower_bound_ns",
                                           "memory_bound_ns",
                                           "model_ns",
                                           "faster_algorithm",
                                           "faster_model_ns",
                                           "wait_message_ns",
                                           "wait_credit_ns",
                                           "wait_receive_ns",
                                           "wait_scratch_ns",
                                           "wait_dma_ns",
                                           "wait_link_ns",
                                           "wait_hbm_ns",
                                           "wait_unit_ns",
                                           "longest_wait"};
  std::vector<std::string> found;
  for (const auto& [name, value] : row.items()) found.push_back(name);
  CHECK(found == wanted);
  CHECK(row["bytes"] == 960);
  CHECK(row["count"] == 40);
  CHECK(row["redop"] == "none");
  CHECK(row["root"] == -1);
  CHECK(row["algorithm"] == "direct");
  const auto time = row["out_of_place_time_ns"].get<double>();
  CHECK(row["out_of_place_algbw_gbs"].get<double>() == Approx(960 / time).epsilon(1e-12));
  CHECK(row["out_of_place_busbw_gbs"].get<double>() == Approx(800 / time).epsilon(1e-12));
  CHECK(row["out_of_place_wrong"] == 0);
  CHECK(row["in_place_wrong"] == 0);
  CHECK(row["lower_bound_ns"].get<double>() <= time);
}

TEST_CASE("all collectives run, on both backends, with the same rows but for times",
          "[cli][collectives]") {
  const Json timed = rows_of({"collective=all", "begin=48", "end=48Ki", "factor=32", "root=2"});
  const Json local =
      rows_of({"collective=all", "begin=48", "end=48Ki", "factor=32", "root=2", "backend=local"});
  REQUIRE(timed.size() == 9 * 3);
  REQUIRE(local.size() == timed.size());
  for (std::size_t i = 0; i < timed.size(); ++i) {
    CAPTURE(timed[i].dump());
    for (const char* same : {"collective", "bytes", "count", "redop", "root", "bus_factor",
                             "out_of_place_wrong", "in_place_wrong"}) {
      CHECK(timed[i][same] == local[i][same]);
    }
    const std::string place = timed[i]["out_of_place_time_ns"].is_null() ? "in" : "out_of";
    CHECK(timed[i][place + "_place_time_ns"] > 0);
    for (const char* timed_only : {"time_ns", "algbw_gbs", "busbw_gbs"}) {
      CHECK(local[i][fmt::format("{}_place_{}", place, timed_only)].is_null());
    }
    CHECK(local[i]["lower_bound_ns"].is_null());
    CHECK(local[i]["algorithm"].is_null());
    CHECK(timed[i][place + "_place_wrong"] == 0);
  }
}

TEST_CASE("sizes grow as nccl-tests' and are rounded down to equal blocks", "[cli][collectives]") {
  const std::vector<std::string> range = {"begin=8", "end=100", "backend=local"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), range.begin(), range.end());
    return more;
  };
  CHECK(column(rows_of(with({"collective=broadcast"})), "bytes") ==
        std::vector<std::int64_t>{8, 16, 32, 64});
  CHECK(column(rows_of(with({"collective=broadcast", "factor=3"})), "bytes") ==
        std::vector<std::int64_t>{8, 24, 72});
  CHECK(column(rows_of(with({"collective=broadcast", "step=40"})), "count") ==
        std::vector<std::int64_t>{2, 12, 22});
  // 8 and 16 B leave nothing for each of 6 ranks.
  CHECK(column(rows_of(with({"collective=all_gather"})), "bytes") ==
        std::vector<std::int64_t>{24, 48});
  CHECK(column(rows_of(with({"collective=all_gather", "dtype=f16"})), "bytes") ==
        std::vector<std::int64_t>{12, 24, 60});
}

TEST_CASE("the settings of collectives do what they say", "[cli][collectives]") {
  const Json group = rows_of({"collective=reduce", "begin=1Ki", "end=1KiB", "group=4,1,2", "root=2",
                              "redop=max", "dtype=bf16", "iters=3"})[0];
  CHECK(group["world_size"] == 3);
  CHECK(group["root"] == 2);
  CHECK(group["redop"] == "max");
  CHECK(group["dtype"] == "bf16");
  CHECK(group["in_place_wrong"] == 0);
  const std::vector<std::string> one_size = {"collective=all_reduce", "begin=8Ki", "end=8Ki"};
  const auto wrong = [&](const std::string& setting) {
    std::vector<std::string> settings = one_size;
    settings.push_back(setting);
    return rows_of(settings)[0]["in_place_wrong"];
  };
  CHECK(wrong("check=0").is_null());
  CHECK(wrong("check_end=8Ki") == 0);
  CHECK(wrong("check_end=4Ki").is_null());
}

TEST_CASE("rows do not depend on how many points run at once", "[cli][collectives]") {
  const std::vector<std::string> settings = {"collective=all_to_all,gather", "begin=1Ki",
                                             "end=8Ki"};
  const ProgramResult one = run_bench(settings, {"--json", "-", "--jobs", "1"});
  const ProgramResult four = run_bench(settings, {"--json", "-", "--jobs", "4"});
  REQUIRE(one.exit_code == 0);
  const Json first = Json::parse(one.out);
  const Json second = Json::parse(four.out);
  CHECK(first["rows"] == second["rows"]);
  CHECK(first["engine"]["fingerprint"] == second["engine"]["fingerprint"]);
}

TEST_CASE("the table of collectives is nccl-tests'", "[cli][collectives]") {
  const ProgramResult result =
      run_bench({"collective=broadcast,all_to_all", "begin=48", "end=48", "backend=local"}, {});
  CHECK(result.exit_code == 0);
  const std::string not_there = "         N/A      N/A      N/A    N/A";
  const std::string there = "         N/A      N/A      N/A      0";
  CHECK_THAT(result.out, Contains("out-of-place") && Contains("in-place"));
  CHECK_THAT(result.out, Contains("#        size       count  type  redop  root        time    "
                                  "algbw    busbw #wrong        time    algbw    busbw #wrong\n"));
  CHECK_THAT(result.out, Contains("#        size       bound         hbm  factor  algorithm        "
                                  "     longest wait\n"));
  CHECK_THAT(result.out,
             Contains("           48          12   f32   none     0" + not_there + there + "\n"));
  CHECK_THAT(
      result.out,
      Contains("           48         N/A         N/A       1  N/A                   N/A\n"));
  CHECK_THAT(result.out,
             Contains("           48           2   f32   none    -1" + there + not_there + "\n"));
  CHECK_THAT(
      result.out,
      Contains("           48         N/A         N/A  0.8333  N/A                   N/A\n"));
  CHECK_THAT(result.out, Contains("# Out of bounds values : 0 OK\n"
                                  "# Avg bus bandwidth    : N/A  (busbw = algbw * 1)\n"));
  CHECK_THAT(result.out, Contains("(busbw = algbw * (P-1)/P = algbw * 0.8333)\n"));
}

TEST_CASE("groups run at once, each with a row, beside its time alone", "[cli][collectives]") {
  const std::vector<std::string> settings = {"collective=all_gather", "begin=192Ki", "end=192Ki"};
  const auto rows_with = [&](const std::string& groups) {
    std::vector<std::string> more = settings;
    more.push_back(groups);
    return rows_of(more);
  };
  // Halves of a ring share no link.
  const Json halves = rows_with("groups=div:3");
  REQUIRE(halves.size() == 2);
  CHECK(halves[0]["group"] == "0, 1, 2");
  CHECK(halves[1]["group"] == "3, 4, 5");
  for (const Json& row : halves) {
    CHECK(row["world_size"] == 3);
    CHECK(row["out_of_place_wrong"] == 0);
    CHECK(row["slowdown"] == 1);
    CHECK(row["alone_time_ns"] == row["out_of_place_time_ns"]);
  }
  // Every second rank: both groups send over all links.
  const Json crossed = rows_with("groups=mod:2");
  REQUIRE(crossed.size() == 2);
  CHECK(crossed[0]["group"] == "0, 2, 4");
  for (const Json& row : crossed) {
    CHECK(row["in_place_wrong"] == 0);
    CHECK(row["slowdown"].get<double>() > 1.1);
    CHECK(row["slowdown"].get<double>() ==
          Approx(row["out_of_place_time_ns"].get<double>() / row["alone_time_ns"].get<double>()));
  }
  // A group alone takes what the bench says of it without the others.
  std::vector<std::string> alone = settings;
  alone.push_back("group=0,2,4");
  CHECK(crossed[0]["alone_time_ns"] == rows_of(alone)[0]["out_of_place_time_ns"]);
}

TEST_CASE("--set algorithm= serves one collective of the bench", "[cli][collectives]") {
  const Json rows = rows_of({"collective=all_gather,broadcast", "begin=960", "end=960",
                             "algorithm=all_gather:ring+broadcast:half_chains"});
  CHECK(rows[0]["algorithm"] == "ring");
  CHECK(rows[1]["algorithm"] == "half_chains");
}

TEST_CASE("a wrong algorithm ends collectives with exit code 1", "[cli][collectives][errors]") {
  const TemporaryFolder folder;
  const std::string ccl = folder.write("ccl.yaml", "defaults: {algorithm: own_values_twice}\n");
  const ProgramResult result =
      run_bench({"begin=1Ki", "end=1Ki"}, {"--ccl", ccl}, {.program = OWN_BENCHES_PROGRAM});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.out, Contains("own_values_twice ") && Contains(" FAILED\n"));
  CHECK_THAT(result.out, !Contains("Out of bounds values : 0"));
}

TEST_CASE("collectives refuses what cannot be", "[cli][collectives][errors]") {
  const auto [settings, exit_code,
              text] = GENERATE(table<std::vector<std::string>, int, std::string>({
      {{"collective=all_reduced"}, 2, "'all_reduced' is not known; did you mean 'all_reduce'?"},
      {{"begin=0"}, 2, "--set begin: expected bytes from 1 to"},
      {{"begin=64M"}, 2, "--set begin: expected bytes from 1 to"},
      {{"begin=8", "end=4"}, 2, "--set end: expected bytes from 8 to"},
      {{"factor=1"}, 2, "--set factor: expected a number from 1.01 to"},
      {{"factor=2", "step=8"}, 2, "sizes grow by a step or by a factor; give one of them"},
      {{"collective=reduce", "root=6"}, 2, "--set root: 6 not in [0, 5]"},
      {{"collective=reduce", "group=1,2", "root=2"}, 2, "--set root: 2 not in [0, 1]"},
      {{"root=2"}, 2, "--set root: all_reduce has none; leave it out"},
      {{"collective=all_gather,broadcast", "redop=max"}, 2, "--set redop: all_gather has none"},
      {{"groups=mod:4"}, 2, "groups=mod:4: 6 ranks do not divide into groups of equal size"},
      {{"groups=mod:7"}, 2, "--set groups=mod:7: expected mod:N, ranks that are equal modulo N"},
      {{"groups=2"}, 2, "--set groups=2: expected mod:N"},
      {{"groups=mod:2", "group=0,1"}, 2, "--set groups: divides all ranks, and group= chooses"},
      {{"algorithm=ring"}, 2, "[KB-U003]"},
      {{"group=1,6"}, 2, "--set group: 6 not in [0, 5]"},
      {{"group=1,1"}, 2, "[KB-U012] --set group=1,1: '1' is given twice"},
      {{"redop=product"},
       2,
       "--set redop: 'product' is not known; there are: sum, avg, prod, min, max"},
      {{"backend=nccl"}, 2, "--set backend: 'nccl' is not known"},
      {{"collective=gather", "end=20"}, 2, "--set end: 16 B leave no element for each of 6 ranks"},
  }));
  const ProgramResult result = run_bench(settings);
  CAPTURE(settings);
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.err, Contains(text));
}

TEST_CASE("a group of one rank takes no time, and says so", "[cli][collectives]") {
  const Json rows = rows_of({"group=3", "begin=64", "end=64"});
  CHECK(rows[0]["in_place_time_ns"] == 0);
  CHECK(rows[0]["in_place_wrong"] == 0);
  CHECK(rows[0]["algorithm"] == "none");
}

TEST_CASE("collectives of PEs that are ranks are exact", "[cli][collectives][rank_pe]") {
  const TemporaryFolder folder;
  const std::string ccl = folder.write("ccl.yaml", "defaults: {world_size: 4}\n");
  std::vector<std::string> settings = {"collective=all", "begin=64", "end=4Ki", "factor=64"};
  const Json by_file = json_of(run_bench(settings, {"--ccl", ccl, "--json", "-"}))["rows"];
  settings.push_back("world_size=4");
  const Json by_setting = rows_of(settings);
  CHECK(by_file == by_setting);
  std::set<std::string> collectives;
  for (const Json& row : by_setting) {
    CAPTURE(row.dump());
    collectives.insert(row["collective"]);
    CHECK(row["world_size"] == 4);
    const std::string place = row["out_of_place_wrong"].is_null() ? "in_place" : "out_of_place";
    CHECK(row[place + "_time_ns"] > 0);
    CHECK(row[place + "_wrong"] == 0);
  }
  CHECK(collectives == std::set<std::string>{"all_reduce", "all_gather", "reduce_scatter",
                                             "broadcast", "reduce", "all_to_all"});
}

TEST_CASE("collectives refuses what PEs that are ranks have not", "[cli][collectives][errors]") {
  const auto refused = [](const std::string& setting) {
    const ProgramResult result = run_bench({"end=64", "world_size=4", setting});
    CAPTURE(setting);
    CHECK(result.exit_code == 2);
    return result.err;
  };
  CHECK_THAT(refused("collective=gather"),
             Contains("gather works between SIPs only, and PEs are the ranks (world_size)"));
  for (const char* setting : {"group=1,2", "groups=mod:2", "backend=local", "cube=replicate"}) {
    CHECK_THAT(refused(setting), Contains("means nothing where PEs are the ranks (world_size)"));
  }
}

TEST_CASE("ccl-allreduce shows how far times vary with the order of simultaneous events",
          "[benches][ties]") {
  const ProgramResult result =
      run_program({"run", "--bench", "ccl-allreduce", "--topology", "tiny", "--set",
                   "n_elem=64,4096", "--tie-orders", "2", "--json", "-"});
  const Json report = json_of(result);
  REQUIRE(report["rows"].size() == 2);
  for (const auto& row : report["rows"])
    CHECK(row["tie_spread"].get<double>() < 1);  // no order takes twice as long as another
  CHECK_THAT(result.err, Catch::Contains("all_reduce in 2 more orders of simultaneous events"));
}

// Returns by what factor the column `model` and the time of each row differ, which may be a third.
std::vector<double> errors_of_model(const Json& rows) {
  std::vector<double> errors;
  for (const Json& row : rows) {
    const Json& out_of_place = row["out_of_place_time_ns"];
    const Json& time = out_of_place.is_null() ? row["in_place_time_ns"] : out_of_place;
    const double ratio = row["model_ns"].get<double>() / time.get<double>();
    errors.push_back(std::max(ratio, 1 / ratio));
    CAPTURE(row.dump());
    CHECK(errors.back() < 4.0 / 3);
  }
  return errors;
}

// Messages of a protocol wait for its latency, and are as large as queues let them be.
TEST_CASE("the model is within a third of the time on a machine that was fitted",
          "[cli][collectives][model]") {
  const auto report =
      json_of({"run", "--bench", "collectives", "--json", "-", "--topology", "a100_8", "--set",
               "collective=all_reduce,all_gather,reduce_scatter,all_to_all", "begin=4Ki",
               "end=16Mi", "factor=64", "check=0"});
  CHECK(errors_of_model(report["rows"]).size() == 12);
}

// The column `model` beside the time, of the algorithm that runs by default.
TEST_CASE("the model is within a tenth of the time at the median, and a third at worst",
          "[cli][collectives][model][exhaustive]") {
  const std::vector<std::vector<std::string>> networks = {
      {"ring_1d", "4"}, {"ring_1d", "6"}, {"full_mesh", "8"}, {"torus_2d", "16", "4", "4"}};
  std::vector<double> ratios;
  for (const std::vector<std::string>& network : networks) {
    std::vector<std::string> words = {"run",
                                      "--bench",
                                      "collectives",
                                      "--json",
                                      "-",
                                      "--set",
                                      "collective=all_reduce,all_gather,reduce_scatter,broadcast,"
                                      "all_to_all,gather",
                                      "begin=4Ki",
                                      "end=1Mi",
                                      "factor=16",
                                      "check=0",
                                      "system.sips.topology=" + network[0],
                                      "system.sips.count=" + network[1]};
    if (network.size() > 2) {
      words.push_back("system.sips.w=" + network[2]);
      words.push_back("system.sips.h=" + network[3]);
    }
    for (const double error : errors_of_model(json_of(words)["rows"])) ratios.push_back(error);
  }
  REQUIRE(ratios.size() == 72);
  std::ranges::sort(ratios);
  CHECK(ratios[ratios.size() / 2] < 1.1);
}

TEST_CASE("a table says by what it ran, and what would be faster", "[cli][collectives]") {
  const ProgramResult open = run_program({"run", "--bench", "ccl-allreduce", "--topology",
                                          "torus_2d_2x3", "--set", "n_elem=64,49152"});
  CHECK_THAT(open.out, Contains("algorithm     the fastest by the model, queues of") &&
                           Contains("# Algorithm            : ") && !Contains("Faster by"));
  const ProgramResult named =
      run_program({"run", "--bench", "ccl-allreduce", "--topology", "torus_2d_2x3", "--set",
                   "n_elem=64,49152", "algorithm=tree_allreduce"});
  CHECK_THAT(named.out, Contains("# Algorithm            : tree_allreduce of 128 to 98304 B\n") &&
                            Contains("# Faster by the model  : "));
}

}  // namespace kernbench::test::collectives_bench_test
