// kernbench run --fold.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "test/benches/program_json.h"

namespace kernbench::test::benches_folding_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;

namespace {

Json report_of(std::vector<std::string> arguments, const std::string& fold) {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--fold", fold, "--json", "-"});
  return json_of(run_program(arguments));
}

}  // namespace

TEST_CASE("ranks that do alike have the rows and the fingerprint of all",
          "[cli][folding][exhaustive]") {
  const auto collective = [](const std::string& topology, const std::string& name,
                             const std::string& bytes = "64Ki") {
    return std::vector<std::string>{"--bench",        "collectives",  "--topology",
                                    topology,         "--set",        "collective=" + name,
                                    "begin=" + bytes, "end=" + bytes, "check=0"};
  };
  const std::vector<std::string> arguments = GENERATE_COPY(
      collective("scale_64", "all_to_all"), collective("h100_128_16nodes", "all_reduce", "4Mi"),
      collective("h100_128_16nodes", "all_gather"),
      std::vector<std::string>{"--bench", "tp-transformer", "--set", "check=false"});
  const Json all = report_of(arguments, "off");
  const Json folded = report_of(arguments, "exact");
  CAPTURE(arguments);
  CHECK(folded["rows"] == all["rows"]);
  CHECK(folded["engine"]["fingerprint"] == all["engine"]["fingerprint"]);
  CHECK(folded["engine"]["events"] < all["engine"]["events"]);
}

// The ranks do not divide the elements of GPT's buckets, and the smallest all_reduces exchange
// halves or go over a tree.
TEST_CASE("many ranks that are nearly alike are simulated once by default",
          "[cli][folding][exhaustive]") {
  const std::string scheme = GENERATE("ddp", "zero1", "fsdp2");
  const std::vector<std::string> arguments = {"--bench",
                                              "ddp",
                                              "--topology",
                                              "scale_64",
                                              "--set",
                                              "world=32",
                                              "batch=1",
                                              "bucket_cap_mb=25",
                                              "scheme=" + scheme,
                                              "layers=1",
                                              "hidden=256",
                                              "system.sips.count=32",
                                              "system.sips.w=8",
                                              "system.sips.h=4"};
  const Json all = report_of(arguments, "exact");
  const Json folded = report_of(arguments, "auto");
  const auto step = [](const Json& report) { return report["rows"][0]["step_ns"].get<double>(); };
  CAPTURE(scheme);
  CHECK(std::abs(step(folded) / step(all) - 1) < 0.02);  // as --help says
  CHECK(folded["engine"]["events"].get<double>() < 0.1 * all["engine"]["events"].get<double>());
}

// Llama has no buffers, which DDP would broadcast before each step.
TEST_CASE("by default few ranks that are nearly alike are simulated one by one", "[cli][folding]") {
  const auto run = [](const std::string& world, const std::string& fold) {
    return run_program({"run", "--bench", "ddp", "--topology", "scale_64", "--set",
                        "world=" + world, "system.sips.count=" + world, "system.sips.w=" + world,
                        "system.sips.h=1", "batch=1", "bucket_cap_mb=25", "layers=1", "hidden=64",
                        "vocab=128", "model=llama", "--fold", fold})
        .out;
  };
  CHECK_THAT(run("16", "auto"), !Contains("alike"));
  CHECK_THAT(run("16", "near"), Contains("nearly alike  one rank was simulated for"));
  CHECK_THAT(run("32", "auto"), Contains("so a later step's time is within 2 %"));
  CHECK_THAT(run("32", "exact"), !Contains("alike"));
}

TEST_CASE("a step of which the model has much is simulated rank by rank", "[cli][folding]") {
  const auto report = [](const std::string& fold) {
    return report_of({"--bench", "ddp", "--topology", "h100_128_16nodes", "--set", "world=32",
                      "batch=1", "seq=3", "hidden=8", "heads=1", "vocab=7", "layers=1",
                      "bucket_cap_mb=25", "system.nodes.link.latency=20us"},
                     fold);
  };
  const Json near = report("near");
  const Json each = report("off");
  CHECK_THAT(near["engine"]["unlike"].get<std::string>(), Contains("the time of their model"));
  CHECK(near["rows"] == each["rows"]);
  CHECK(near["engine"]["fingerprint"] == each["engine"]["fingerprint"]);
}

TEST_CASE("a step of ranks that are nearly alike takes nearly as long", "[cli][folding]") {
  const std::string scheme = GENERATE("ddp", "fsdp2");
  const std::vector<std::string> arguments = {
      "--bench",          "ddp",     "--topology",      "h100_128_16nodes", "--set", "world=16",
      "scheme=" + scheme, "batch=2", "bucket_cap_mb=1", "model=llama"};
  const Json all = report_of(arguments, "off");
  const Json folded = report_of(arguments, "near");
  const auto step = [](const Json& report) { return report["rows"][0]["step_ns"].get<double>(); };
  CAPTURE(scheme);
  CHECK(std::abs(step(folded) / step(all) - 1) < 0.02);  // as --help says
  CHECK(folded["engine"]["events"] < all["engine"]["events"]);
  CHECK(report_of(arguments, "exact")["engine"]["events"] == all["engine"]["events"]);
}

TEST_CASE("the foot says for how many ranks one was simulated", "[cli][folding][exhaustive]") {
  const auto run = [](const std::string& fold) {
    return run_program({"run", "--bench", "collectives", "--topology", "scale_64", "--set",
                        "collective=all_to_all", "begin=64Ki", "end=64Ki", "check=0", "--fold",
                        fold});
  };
  const std::string note = "alike         one rank was simulated for 64; --fold off";
  CHECK_THAT(run("exact").out, Contains(note));
  CHECK_THAT(run("off").out, !Contains("alike"));
  const ProgramResult unlike = run_program({"run", "--bench", "ddp", "--set", "world=4", "batch=1",
                                            "bucket_cap_mb=25", "scheme=zero1", "--fold", "near"});
  CHECK_THAT(unlike.out, Contains("not alike     [KB-C026]"));
  const ProgramResult wrong = run("all");
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("--fold") && Contains("exact"));
}

}  // namespace kernbench::test::benches_folding_test
