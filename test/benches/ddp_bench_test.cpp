// The bench `ddp`: buckets of a data parallel step.

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <sstream>

#include "test/benches/program_json.h"

namespace kernbench::test::ddp_bench_test {
namespace {

using Json = nlohmann::json;

constexpr const char* kModel = "layers=1 hidden=128 heads=2 vocab=512 seq=16";

std::vector<std::string> command(const std::string& settings) {
  std::vector<std::string> words{"run", "--bench", "ddp", "--set"};
  std::istringstream in(std::string(kModel) + " " + settings);
  if (settings.find("batch=") == std::string::npos) words.push_back("batch=1");
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

Json rows_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  return json_of(words)["rows"];
}

TEST_CASE("the bench ddp tells what each bucket hides, and four shares that are the step",
          "[cli][ddp]") {
  const Json rows = rows_of(command("world=2 bucket_cap_mb=0.1,100 scheme=ddp,zero1,fsdp2"));
  int steps = 0;
  for (const Json& row : rows) {
    CAPTURE(row.dump());
    if (row["table"] == "step") {
      ++steps;
      const double whole = row["compute_only"].get<double>() + row["both"].get<double>() +
                           row["exposed"].get<double>() + row["idle"].get<double>();
      CHECK(whole == Approx(1).epsilon(1e-12));
      CHECK(row["exposed_ns"].get<double>() > 0);
      CHECK(row["ratio"].get<double>() >= 1);
    } else {
      CHECK(row["ready_ns"] <= row["started_ns"]);
      CHECK(row["bound_ns"] <= row["last_ended_ns"]);
      CHECK(row["ended_ns"] <= row["last_ended_ns"]);
      CHECK(row["hidden_ns"].get<double>() + row["exposed_ns"].get<double>() ==
            Approx(row["ended_ns"].get<double>() - row["started_ns"].get<double>()));
      CHECK(row["parameters"] != "");
    }
  }
  CHECK(steps == 6);
}

// The keys that are left out are those of llama3-8b: 8 heads of keys, of 8 features each here.
TEST_CASE("the bench ddp takes models by name, and two layers of them", "[cli][ddp]") {
  const std::vector<std::string> words = {
      "run",    "--bench",    "ddp",      "--set",   "config=llama3-8b", "hidden=128",
      "ffn=96", "vocab=1000", "heads=16", "world=2", "seq=16",           "cubes=1",
      "pes=1",  "dtype=bf16", "--json",   "-",       "--topology",       "tiny"};
  const Json report = json_of(words);
  const std::int64_t block = 2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 96 + 2 * 128;
  const std::int64_t parameters = 2 * 1000 * 128 + 2 * block + 128;
  CHECK(report["rows"][0]["bytes"] == 2 * parameters);
  std::vector<std::string> printed = words;
  std::erase(printed, "--json");
  std::erase(printed, "-");
  CHECK_THAT(run_program(printed).out,
             Catch::Contains("2 of the 32 layers of llama3-8b with hidden 128, heads 16, ffn 96, "
                             "vocab 1000, 16 tokens per rank"));
}

TEST_CASE("the bench ddp takes ranks that start apart", "[cli][ddp]") {
  const Json rows = rows_of({"run", "--bench", "ddp", "--set", "scheme=zero1", "world=5",
                             "bucket_cap_mb=25", "layers=1", "batch=1"});
  CHECK(rows.size() > 1);
}

// The bench's own check: it ends with exit code 1 if a bucket or a step beats its bound.
TEST_CASE("no bucket and no step takes less than its bound", "[cli][ddp][exhaustive]") {
  const auto* const topology = GENERATE("default", "tiny", "zero_overhead");
  const auto* const model = GENERATE("gpt", "llama");
  CAPTURE(topology, model);
  std::vector<std::string> words = command(std::string("world=2,5 bucket_cap_mb=0.05,100 "
                                                       "scheme=ddp,zero1,fsdp2 model=") +
                                           model);
  words.insert(words.end(), {"--topology", topology});
  int buckets = 0;
  for (const Json& row : rows_of(words)) {
    CHECK(row["ratio"].get<double>() >= 1);
    buckets += row["table"] == "bucket" ? 1 : 0;
  }
  CHECK(buckets > 12);
}

TEST_CASE("the bench ddp refuses sizes that are none", "[cli][ddp]") {
  CHECK(run_program(command("bucket_cap_mb=-1")).exit_code == 2);
  const ProgramResult twice = run_program(command("bucket_cap_mb=5,5.0"));
  CHECK(twice.exit_code == 2);
  CHECK_THAT(twice.err, Catch::Contains("[KB-U012] --set bucket_cap_mb=5,5.0: '5.0' is given "
                                        "twice"));
  CHECK(run_program(command("heads=3")).exit_code == 2);
  CHECK(run_program(command("scheme=fsdp1")).exit_code == 2);
  CHECK(run_program(command("pes=9")).exit_code == 2);
}

TEST_CASE("PEs that share a rank's samples share its weights", "[cli][ddp]") {
  const ProgramResult result =
      run_program(command("world=2 bucket_cap_mb=1 cubes=2 pes=2 batch=4 scheme=ddp,zero1,fsdp2"));
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("4 of the 128 PEs of a SIP: links 32 and HBM 4 times"));
}

TEST_CASE("the bench ddp writes its tables and figures", "[cli][ddp]") {
  const TemporaryFolder folder;
  std::vector<std::string> words = command("world=2 bucket_cap_mb=1,100");
  words.insert(words.end(), {"--out", folder.path("out")});
  CHECK(run_program(words).exit_code == 0);
  for (const char* const name : {"steps.csv", "buckets.csv", "exposed.gp", "step.gp"}) {
    CHECK(std::filesystem::exists(folder.path("out/") + name));
  }
}

}  // namespace
}  // namespace kernbench::test::ddp_bench_test
