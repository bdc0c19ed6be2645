#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>

#include "test/benches/program_json.h"

namespace kernbench::test::cli_probe_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;

namespace {

std::vector<std::string> path_of(const std::string& from, const std::string& to,
                                 const std::string& bytes,
                                 const std::string& topology = "default") {
  return {"probe", "path", "--topology", topology, "--from", from,
          "--to",  to,     "--bytes",    bytes,    "--json", "-"};
}

}  // namespace

TEST_CASE("probe path tells the hops, and its time is the closed form", "[cli][probe]") {
  const Json path = json_of(path_of("sip0.cube0.pe0", "sip1.cube0.pe0", "65536"));
  std::vector<std::string> keys;
  for (const auto& [key, value] : path.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"latency_ns", "time_ns", "bottleneck_gbs", "hops"});
  CHECK(path["hops"].size() == 7);
  CHECK(path["hops"][3] ==
        Json::parse(R"({"link": "sip0.link.east", "latency_ns": 300.0, "bandwidth_gbs": 64.0})"));
  CHECK(path["latency_ns"] == 2 + 4 + 16 + 300 + 16 + 4 + 2);
  CHECK(path["bottleneck_gbs"] == 64);
  CHECK(path["time_ns"] == 344 + 65536 / 64);
}

TEST_CASE("the simulated time is latency plus bytes over the slowest hop", "[cli][probe]") {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"sip0.cube0.pe0", "sip0.cube0.pe0"},
      {"sip0.cube5.pe2", "sip0.cube5.pe7"},
      {"sip0.cube0.pe0", "sip0.cube15.pe3"},
      {"sip1.cube7.pe1", "sip4.cube10.pe6"}};
  for (const auto& [from, to] : pairs) {
    for (const int bytes : {0, 1, 64, 98304}) {
      const Json path = json_of(path_of(from, to, std::to_string(bytes), "torus_2d_3x2"));
      double latency = 0;
      double slowest = 1e9;
      for (const Json& hop : path["hops"]) {
        latency += hop["latency_ns"].get<double>();
        slowest = std::min(slowest, hop["bandwidth_gbs"].get<double>());
      }
      CHECK(path["latency_ns"] == latency);
      CHECK(path["bottleneck_gbs"] == slowest);
      // Rounded up to a picosecond.
      CHECK(path["time_ns"].get<double>() - (latency + bytes / slowest) < 0.0011);
      CHECK(path["time_ns"].get<double>() >= latency + bytes / slowest - 1e-9);
    }
  }
}

TEST_CASE("sizes may have units", "[cli][probe]") {
  const Json path = json_of(path_of("sip0.cube0.pe0", "sip1.cube0.pe0", "65536"));
  CHECK(json_of(path_of("sip0.cube0.pe0", "sip1.cube0.pe0", "64KiB")) == path);
  CHECK(json_of(path_of("sip0.cube0.pe0", "sip1.cube0.pe0", "64 KiB")) == path);
}

TEST_CASE("what is unlimited is null for machines and a word for people", "[cli][probe]") {
  auto arguments = path_of("sip0.cube0.pe0", "sip0.cube0.pe0", "1MiB", "zero_overhead");
  const ProgramResult result = run_program(arguments);
  const Json path = Json::parse(result.out);
  CHECK(path["bottleneck_gbs"].is_null());
  CHECK(path["time_ns"] == 0);
  CHECK_THAT(result.err, Contains("unlimited"));
}

TEST_CASE("people see the closed form beside the simulation", "[cli][probe]") {
  auto arguments = path_of("sip0.cube0.pe0", "sip1.cube0.pe0", "65536");
  arguments.resize(arguments.size() - 2);
  const ProgramResult result = run_program(arguments);
  CHECK_THAT(result.out, Contains("closed form  1368 ns = 344 ns + 65536 B / 64 GB/s\n") &&
                             Contains("simulated    1368 ns"));
}

TEST_CASE("probe bound is the lower bound of TIMING.md", "[cli][probe]") {
  const auto bound = [](const std::string& topology, const std::string& bytes) {
    const Json json = json_of({"probe", "bound", "--topology", topology, "--collective",
                               "all_reduce", "--bytes", bytes, "--json", "-"});
    CHECK(json.size() == 1);
    return json["lower_bound_ns"].get<double>();
  };
  // 2 SIPs: one link each way carries all bytes, and the last one takes its latency.
  CHECK(bound("default", "64000") == 300 + 1000);
  // A ring of 6 used both ways: alpha + (P-1)/P n beta.
  CHECK(bound("ring_1d_6", "6400000") == Approx(300 + 6400000 / 64.0 * 5 / 6).epsilon(1e-6));
  // Few bytes: the diameter of 3.
  CHECK(bound("ring_1d_6", "2") == 900);
  CHECK(bound("ring_1d_6", "0") == 0);
}

TEST_CASE("probe bound takes every collective, a group and a root", "[cli][probe]") {
  const auto bound = [](const std::string& collective, const std::string& bytes,
                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"probe",        "bound",    "--topology", "ring_1d_6",
                                          "--collective", collective, "--bytes",    bytes,
                                          "--json",       "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(arguments)["lower_bound_ns"].get<double>();
  };
  // Blocks of 64 kB: 5 come in over two links.  The member opposite to a root gets all of its
  // bytes over two links, 3 latencies after they left.
  for (const char* collective : {"all_gather", "reduce_scatter"}) {
    CHECK(bound(collective, "384000") == 300 + 2500);
  }
  for (const char* collective : {"broadcast", "reduce"}) {
    CHECK(bound(collective, "64000") == 3 * 300 + 500);
    CHECK(bound(collective, "640000") == 3 * 300 + 5000);
  }
  // 3 + 3 blocks leave each half of 3 for every member of the other, over two links.
  CHECK(bound("all_to_all", "384000") == 300 + 9 * 1000 / 2);
  CHECK(bound("gather", "384000") == 300 + 2500);
  CHECK(bound("scatter", "384000", {"--root", "3"}) == 300 + 2500);
  // Ranks 0 and 2 have one link each to the others, and rank 1 has one to either.
  CHECK(bound("all_gather", "192000", {"--group", "0,1,2"}) == 300 + 2 * 1000);
  CHECK(bound("broadcast", "64", {"--group", "0,1,2", "--root", "0"}) == 600.5);
  CHECK(bound("broadcast", "64", {"--group", "0,1,2", "--root", "1"}) == 301);
}

TEST_CASE("probe choose shows what collectives run by, for every size", "[cli][probe]") {
  const auto choose = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"probe", "choose", "--json", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(arguments);
  };
  const Json rows = choose({"--topology", "ring_1d_6", "--collective", "broadcast"});
  REQUIRE(rows.size() == 25);  // 4 B to 64 MiB
  CHECK(rows[0]["bytes"] == 4);
  CHECK(rows[0]["algorithm"] == "chain");
  CHECK(rows[0]["is_configured"] == false);
  CHECK(rows[24]["bytes"] == 1 << 26);
  CHECK(rows[24]["algorithm"] == "half_chains");
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CHECK(rows[i]["model_ns"].get<double>() >= rows[i - 1]["model_ns"].get<double>());
  }
  const TemporaryFolder folder;
  const std::string ccl = folder.write(
      "ccl.yaml", "rules: [{broadcast: {algorithm: chain, above: 1 KiB, group: EXPERTS}}]\n");
  const Json named = choose({"--topology", "ring_1d_6", "--collective", "broadcast", "--group",
                             "0,1,2", "--group-name", "EXPERTS", "--ccl", ccl});
  CHECK(named[8]["is_configured"] == false);
  CHECK(named[9]["is_configured"] == true);
  CHECK(named[9]["algorithm"] == "chain");
  const ProgramResult people = run_program({"probe", "choose", "--topology", "torus_2d_2x3"});
  CHECK_THAT(people.out, Contains("all_reduce over all 6 ranks") &&
                             Contains("intercube_allreduce") && Contains("direct_allreduce"));
}

TEST_CASE("draw makes a picture of a topology, or says why not", "[cli][draw]") {
  const ProgramResult drawn = run_program({"draw", "ring_1d_6"});
  CHECK(drawn.exit_code == 0);
  CHECK_THAT(drawn.out, Catch::StartsWith("<svg") && Contains("(a) system: 6 SIPs"));
  const TemporaryFolder folder;
  CHECK(run_program({"draw", "ring_1d_6", "--out", folder.path("ring.svg")}).exit_code == 0);
  CHECK(folder.read("ring.svg") == drawn.out);
  const ProgramResult wrong = run_program({"draw", "--out", folder.path("ring.png")});
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("KB-U012") && Contains("ring.png"));
  CHECK(run_program({"draw", "no_such_topology"}).exit_code == 2);
}

TEST_CASE("probe gemm is the table of TIMING.md", "[cli][probe][gemm]") {
  struct Case {
    const char* dataflow;
    std::string m, n, k, side;
    std::int64_t cycles;
    std::int64_t folds;
  };
  const std::vector<Case> cases = {
      {"output_stationary", "4", "4", "4", "4", 10, 1},
      {"weight_stationary", "100", "60", "50", "4", 21'450, 195},
      {"output_stationary", "128", "128", "128", "32", 3'040, 16},
      {"weight_stationary", "4096", "4096", "4096", "128", 4'585'472, 1024},
      {"output_stationary", "4096", "4096", "4096", "128", 4'454'400, 1024},
      {"output_stationary", "1000", "1000", "1000", "32", 1'087'488, 1024}};
  for (const Case& c : cases) {
    const Json gemm =
        json_of({"probe", "gemm", "--topology", "tiny", "--m", c.m, "--n", c.n, "--k", c.k,
                 "--rows", c.side, "--columns", c.side, "--dataflow", c.dataflow, "--json", "-"});
    CHECK(gemm.size() == 3);
    CHECK(gemm["cycles"] == c.cycles);
    CHECK(gemm["folds"] == c.folds);
    const double products = std::stod(c.m) * std::stod(c.n) * std::stod(c.k);
    const double side = std::stod(c.side);
    CHECK(gemm["utilization"] ==
          Approx(products / (static_cast<double>(c.cycles) * side * side)).epsilon(1e-12));
  }
}

TEST_CASE("probe gemm takes the topology's array unless told otherwise", "[cli][probe][gemm]") {
  const std::vector<std::string> sizes = {"probe", "gemm", "--m", "128",
                                          "--n",   "128",  "--k", "128"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = sizes;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(arguments)["cycles"].get<std::int64_t>();
  };
  CHECK(with({"--json", "-"}) == 16 * 128 + 62);
  CHECK(with({"--json", "-", "--columns", "128"}) == 4 * 128 + 32 + 128 - 2);
  CHECK(with({"--json", "-", "--dataflow", "weight_stationary"}) == 16 * 128 + 64 + 32 - 2);
  const ProgramResult people = run_program(sizes);
  CHECK_THAT(people.out, Contains("array         32 x 32, output_stationary\n") &&
                             Contains("folds         16, which overlap\n") &&
                             Contains("cycles        2110\n") &&
                             Contains("utilization   97.06 %\n"));
}

}  // namespace kernbench::test::cli_probe_test
