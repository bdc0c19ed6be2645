// kernbench run --bench ccl-allreduce, as a script uses it.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "test/benches/program_json.h"

namespace kernbench::test::cli_run_test {

using Catch::Contains;
using Catch::Matches;
using Json = nlohmann::ordered_json;

namespace {

std::vector<std::string> allreduce(const std::string& topology,
                                   const std::vector<std::string>& settings = {}) {
  std::vector<std::string> arguments = {
      "run", "--bench", "ccl-allreduce", "--topology", topology, "--json", "-"};
  for (const std::string& setting : settings) {
    arguments.push_back("--set");
    arguments.push_back(setting);
  }
  return arguments;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

Json without_wall(Json report) {
  report["engine"].erase("wall_s");
  report["engine"].erase("events_per_s");
  return report;
}

TEST_CASE("what ends before it has done anything prints its error alone", "[cli][errors]") {
  using Words = std::vector<std::string>;
  for (const Words& more : {Words{"tp-mlp", "tp=0"}, Words{"collectives", "begin=0"},
                            Words{"ipcq", "messages=0"}, Words{"gemm", "m=0"}}) {
    const ProgramResult result = run_program({"run", "--bench", more[0], "--set", more[1]});
    CAPTURE(more[0]);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains("kernbench: error: [KB-U01"));
    CHECK(result.out.empty());
  }
}

}  // namespace

TEST_CASE("the report has exactly the agreed keys", "[cli][run]") {
  const Json report = json_of(allreduce("tiny", {"n_elem=64"}));
  CHECK(keys_of(report) == std::vector<std::string>{"kernbench", "bench", "ok", "topology",
                                                    "world_size", "seed", "set", "shuffle_ties",
                                                    "rows", "artifacts", "engine"});
  CHECK(keys_of(report["engine"]) == std::vector<std::string>{"simulated_ns", "events",
                                                              "events_per_s", "wall_s",
                                                              "fingerprint", "busiest_unit"});
  CHECK(keys_of(report["engine"]["busiest_unit"]) ==
        std::vector<std::string>{"name", "busy_ns", "kernels_ns", "share"});
  CHECK(keys_of(report["rows"][0]) ==
        std::vector<std::string>{"collective",      "algorithm",
                                 "world_size",      "buffer_kind",
                                 "n_elem",          "dtype",
                                 "bytes",           "crit_ns",
                                 "joint_ns",        "time_ns",
                                 "algbw_gbs",       "busbw_gbs",
                                 "lower_bound_ns",  "memory_bound_ns",
                                 "model_ns",        "faster_algorithm",
                                 "faster_model_ns", "form",
                                 "wrong",           "wait_message_ns",
                                 "wait_credit_ns",  "wait_receive_ns",
                                 "wait_scratch_ns", "wait_dma_ns",
                                 "wait_link_ns",    "wait_hbm_ns",
                                 "wait_unit_ns",    "longest_wait"});
  CHECK(report["kernbench"] == "0.1.0");
  CHECK(report["topology"] == "tiny");
  CHECK(report["ok"] == true);
  CHECK(report["engine"]["fingerprint"].get<std::string>().size() == 16);
}

TEST_CASE("rows are right on every kind of topology", "[cli][run]") {
  for (const std::string topology :
       {"default", "ring_1d_6", "torus_2d_2x3", "torus_2d_3x2", "mesh_2d_no_wrap_2x3"}) {
    CAPTURE(topology);
    const Json report = json_of(allreduce(topology, {"n_elem=0,1,7,4096"}));
    REQUIRE(report["rows"].size() == 4);
    const int ranks = report["world_size"];
    for (const Json& row : report["rows"]) {
      CHECK(row["wrong"] == 0);
      CHECK(row["world_size"] == ranks);
      CHECK(row["bytes"] == 2 * row["n_elem"].get<int>());
      CHECK(row["time_ns"] >= row["lower_bound_ns"]);
      CHECK(row["time_ns"] >= row["crit_ns"]);
      if (row["n_elem"] == 0) continue;
      const double algbw = row["bytes"].get<double>() / row["time_ns"].get<double>();
      CHECK(row["algbw_gbs"].get<double>() == Approx(algbw));
      CHECK(row["busbw_gbs"].get<double>() == Approx(algbw * 2 * (ranks - 1) / ranks));
    }
  }
}

TEST_CASE("every placement and type is exact", "[cli][run][exhaustive]") {
  for (const std::string cube : {"partial", "replicate", "column_wise", "row_wise"}) {
    for (const std::string pe : {"partial", "replicate", "column_wise"}) {
      for (const std::string dtype : {"f16", "bf16", "f32"}) {
        CAPTURE(cube, pe, dtype);
        const Json report = json_of(allreduce(
            "torus_2d_2x3", {"n_elem=100", "cube=" + cube, "pe=" + pe, "dtype=" + dtype}));
        CHECK(report["rows"][0]["wrong"] == 0);
        CHECK(report["rows"][0]["dtype"] == dtype);
      }
    }
  }
}

TEST_CASE("queues may lie in any memory", "[cli][run]") {
  std::vector<Json> times;
  for (const std::string kind : {"tcm", "sram", "hbm"}) {
    const Json row = json_of(allreduce("tiny", {"n_elem=4096", "buffer_kind=" + kind}))["rows"][0];
    CHECK(row["buffer_kind"] == kind);
    CHECK(row["wrong"] == 0);
    times.push_back(row["time_ns"]);
  }
  CHECK(times[0] < times[1]);
  CHECK(times[1] < times[2]);
}

TEST_CASE("a single device has nothing to exchange", "[cli][run]") {
  const TemporaryFolder folder;
  const std::string file = folder.write(
      "one.yaml",
      replaced(read_file(KERNBENCH_ROOT "/topologies/tiny.yaml"), "count: 2", "count: 1"));
  const Json row = json_of(allreduce(file, {"n_elem=64"}))["rows"][0];
  CHECK(row["world_size"] == 1);
  CHECK(row["busbw_gbs"] == 0);
  CHECK(row["algbw_gbs"] > 0);
  CHECK(row["lower_bound_ns"] == 0);
  CHECK(row["wrong"] == 0);
}

TEST_CASE("the busiest unit of a large all_reduce is a link between SIPs, of a small one waits",
          "[cli][run][busiest_unit][exhaustive]") {
  const auto busiest = [](const std::string& elements) {
    return json_of(allreduce(
        "ring_1d_6", {"n_elem=" + elements, "cube.hbm.channels=16"}))["engine"]["busiest_unit"];
  };
  const Json large = busiest("1572864");
  CHECK_THAT(large["name"].get<std::string>(), Matches("sip[0-5]\\.link\\.(east|west)"));
  CHECK(large["share"] > 0.5);
  CHECK(large["share"] <= 1.0);
  CHECK(large["share"] ==
        Approx(large["busy_ns"].get<double>() / large["kernels_ns"].get<double>()).epsilon(1e-12));
  CHECK(busiest("16")["share"] < 0.1);
}

TEST_CASE("without overheads the closed form is met", "[cli][run]") {
  // A chunk of 1 KiB for each of 4 ranks, in one part: it is met to the picosecond.
  const Json row =
      json_of(allreduce("zero_overhead", {"n_elem=2048", "algorithm=ring_allreduce"}))["rows"][0];
  CHECK(row["time_ns"] == row["model_ns"]);
}

TEST_CASE("two runs differ in nothing but the wall's figures", "[cli][run][determinism]") {
  const auto arguments = allreduce("mesh_2d_no_wrap_2x3", {"n_elem=1000"});
  CHECK(without_wall(json_of(arguments)) == without_wall(json_of(arguments)));
}

TEST_CASE("the times of a size do not depend on its place in a sweep", "[cli][run]") {
  const Json sweep = json_of(allreduce("ring_1d_6", {"n_elem=4096,64,1024"}));
  const Json alone = json_of(allreduce("ring_1d_6", {"n_elem=1024"}));
  CHECK(sweep["rows"][2] == alone["rows"][0]);
}

TEST_CASE("the seed changes the data and not the times", "[cli][run]") {
  auto arguments = allreduce("tiny", {"n_elem=64"});
  const Json first = json_of(arguments);
  arguments.insert(arguments.end(), {"--seed", "42"});
  const Json second = json_of(arguments);
  CHECK(second["seed"] == 42);
  CHECK(second["rows"] == first["rows"]);
}

TEST_CASE("a shipped topology by name is the file", "[cli][run]") {
  CHECK(without_wall(json_of(allreduce("torus_2d_2x3", {"n_elem=64"}))) ==
        without_wall(
            json_of(allreduce(KERNBENCH_ROOT "/topologies/torus_2d_2x3.yaml", {"n_elem=64"}))));
}

TEST_CASE("ccl.yaml chooses queues and sizes, --set overrides it", "[cli][run]") {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("ccl.yaml", "defaults: {buffer_kind: hbm, n_elem: [64, 128]}\n");
  auto arguments = allreduce("tiny");
  arguments.insert(arguments.end(), {"--ccl", file});
  const Json rows = json_of(arguments)["rows"];
  REQUIRE(rows.size() == 2);
  CHECK(rows[1]["n_elem"] == 128);
  CHECK(rows[1]["buffer_kind"] == "hbm");
  arguments.insert(arguments.end(), {"--set", "n_elem=32", "--set", "buffer_kind=sram"});
  const Json overridden = json_of(arguments)["rows"];
  REQUIRE(overridden.size() == 1);
  CHECK(overridden[0]["n_elem"] == 32);
  CHECK(overridden[0]["buffer_kind"] == "sram");
}

TEST_CASE("PEs that are ranks are so in the head, the report and the rows", "[cli][run]") {
  for (const std::string world_size : {"1", "4", "8", "16"}) {
    const auto arguments =
        allreduce("default", {"n_elem=64", "algorithm=ring_allreduce", "world_size=" + world_size});
    const ProgramResult result = run_program(arguments);
    CHECK_THAT(result.err, Contains(fmt::format(
                               "#   world size    {} rank{}, one on each PE, from the first on\n",
                               world_size, world_size == "1" ? "" : "s")));
    const Json report = Json::parse(result.out);
    CHECK(report["world_size"] == std::stoi(world_size));
    CHECK(report["rows"][0]["world_size"] == std::stoi(world_size));
    CHECK(report["rows"][0]["wrong"] == 0);
  }
  const TemporaryFolder folder;
  const std::string file = folder.write("ccl.yaml", "defaults: {world_size: 8}\n");
  auto arguments = allreduce("default", {"n_elem=64"});
  arguments.insert(arguments.end(), {"--ccl", file});
  CHECK(json_of(arguments)["world_size"] == 8);
}

TEST_CASE("rows of ccl-allreduce say what HBM alone would take", "[cli][run]") {
  // Each of 8 PEs loads and stores 96 KiB in the slice of its cube: 2 channels of 51.2 GB/s, 90 %.
  const Json pes = json_of(allreduce(
      "default", {"n_elem=49152", "algorithm=ring_allreduce", "world_size=8"}))["rows"][0];
  CHECK(pes["memory_bound_ns"].get<double>() ==
        Approx(8.0 * 2 * 98'304 / (2 * 51.2 * 0.9)).margin(1e-3));
  CHECK(pes["time_ns"] >= pes["memory_bound_ns"]);
  const Json sips = json_of(allreduce("default", {"n_elem=49152"}))["rows"][0];
  CHECK(sips["memory_bound_ns"] > 0);
  CHECK(sips["time_ns"] >= sips["memory_bound_ns"]);
}

TEST_CASE("a shift adds nothing up, and is checked all the same", "[cli][run]") {
  for (const std::string more : {"dtype=f16", "world_size=8"}) {
    const Json report =
        json_of(allreduce("ring_1d_6", {"n_elem=0,100,3000", "algorithm=hello_send", more}));
    for (const Json& row : report["rows"]) {
      CHECK(row["collective"] == "shift");
      CHECK(row["busbw_gbs"] == row["algbw_gbs"]);
      CHECK(row["lower_bound_ns"] == nullptr);
      CHECK(row["wrong"] == 0);
    }
  }
}

TEST_CASE("auto runs the fastest, whose name is in the row", "[cli][run][exhaustive]") {
  const auto rows = json_of(allreduce("ring_1d_6", {"n_elem=64,49152", "algorithm=auto"}))["rows"];
  const std::string name = rows[1]["algorithm"];
  CHECK(name != "auto");
  CHECK(name != "tree_allreduce");
  const auto alone = json_of(allreduce("ring_1d_6", {"n_elem=49152", "algorithm=" + name}));
  CHECK(alone["rows"][0]["crit_ns"] == rows[1]["crit_ns"]);
}

TEST_CASE("people get nccl-tests' table, on stderr if machines have stdout", "[cli][run]") {
  std::vector<std::string> arguments = {"run",  "--bench", "ccl-allreduce", "--topology",
                                        "tiny", "--set",   "n_elem=64"};
  const std::string table = run_program(arguments).out;
  for (const char* part : {"# kernbench 0.1.0: ccl-allreduce\n", "#wrong", "busbw", " f16    sum ",
                           "# Out of bounds values : 0 OK\n",
                           "# Avg bus bandwidth    : ", "fingerprint", "world size", "seed"}) {
    CHECK_THAT(table, Contains(part));
  }
  arguments.insert(arguments.end(), {"--csv", "-"});
  const ProgramResult machine = run_program(arguments);
  CHECK_THAT(machine.err, Contains("# Out of bounds values : 0 OK\n"));
  CHECK_THAT(machine.out, Catch::StartsWith("collective,algorithm,world_size,"));
}

TEST_CASE("the program needs no file but itself", "[cli][run]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_program(
      {"run", "--bench", "ccl-allreduce", "--set", "n_elem=64"}, {.folder = folder.path("")});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("default: 2 SIPs in a ring, 4 x 4 cubes of 8 PEs each"));
  CHECK(folder.names().empty());
}

}  // namespace kernbench::test::cli_run_test
