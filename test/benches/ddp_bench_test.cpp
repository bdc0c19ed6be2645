// The bench `ddp`: buckets of a data parallel step.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <sstream>

#include "benches/ddp/mesh.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/benches/program_json.h"
#include "test/support/small_topology.h"
#include "tp/parallel_state.h"

namespace kernbench::test::ddp_bench_test {
namespace {

using Json = nlohmann::json;

// Keys that a test does not give.
constexpr const char* kModel = "layers=1 hidden=128 heads=2 vocab=512 seq=16 batch=1";

std::vector<std::string> command(const std::string& settings) {
  std::vector<std::string> words{"run", "--bench", "ddp", "--set"};
  std::istringstream given(settings);
  for (std::string word; given >> word;) words.push_back(word);
  std::istringstream model(kModel);
  for (std::string word; model >> word;) {
    const std::string key = word.substr(0, word.find('=') + 1);
    const auto has_key = [&](const std::string& other) { return other.starts_with(key); };
    if (std::ranges::none_of(words, has_key)) words.push_back(word);
  }
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

Json mesh_of(const std::string& settings, std::vector<std::string> more = {}) {
  std::vector<std::string> words = command("bucket_cap_mb=1 " + settings);
  words.insert(words.end(), more.begin(), more.end());
  for (const Json& row : rows_of(words)) {
    if (row["table"] == "mesh") return row;
  }
  FAIL("no row of a mesh");
  return {};
}

// By hand, of GPT with 1 layer, hidden 128, ffn 512, vocab 512, 16 tokens in f32, tp 2 x dp 2: the
// weights of a rank are its halves of 12 x 128^2, of 512 x 128 for the head, and as many words.
TEST_CASE("a mesh sends along each axis what Megatron sends", "[cli][ddp]") {
  const bool sequence_parallel = GENERATE(false, true);
  const Json row = mesh_of(std::string("world=4 tp=2 scheme=zero1 sequence_parallel=") +
                           (sequence_parallel ? "true" : "false"));
  CAPTURE(row.dump());
  CHECK(row["tp"] == 2);
  CHECK(row["dp"] == 2);
  constexpr std::int64_t kTokens = 16;
  constexpr std::int64_t kHidden = 16 * 128 * 4;  // bytes of [tokens, hidden]
  // An all_reduce of two ranks sends all of it, an all_gather and a reduce_scatter half.  Forward:
  // of the embedding, and of attention and MLP; backward: of these two, and of the head.  The loss
  // has three of one number for each token.
  std::int64_t expected = (1 + 2 + 2 + 1) * kHidden + 3 * kTokens * 4;
  if (sequence_parallel) {
    // The embedding's all_reduce stays, and its scatter's all_gather comes; an all_gather forward,
    // one backward and a reduce_scatter of three column layers, a reduce_scatter and an all_gather
    // of two row layers; and the gradients of two vectors of each of 3 LayerNorms and of the biases
    // of two row layers, of 128 elements each.
    expected = kHidden + kHidden / 2 + (3 * 3 + 2 * 2) * kHidden / 2 + 3 * kTokens * 4;
    expected += (3 * 2 + 2) * 128 * 4;
  }
  CHECK(row["tp_bytes"] == expected);
  // Gradients and parameters: half of each of both, with what buckets have between parameters.
  constexpr std::int64_t kWeights = 6 * 128 * 128 + 2 * 256 * 128 + 16 * 128;
  CHECK(row["dp_bytes"].get<std::int64_t>() > 4 * kWeights);
  CHECK(row["dp_bytes"].get<double>() < 1.1 * 4 * kWeights);
  CHECK(row["tp_exposed_ns"] <= row["tp_ns"]);
  CHECK(row["tp_exposed_ns"].get<double>() > 0);
  CHECK(row["mfu"].get<double>() > 0);
}

TEST_CASE("a step that takes no time has no MFU", "[ddp]") {
  Topology topology = round_topology(SipTopology::ring_1d, 1);
  topology.pe.gemm.clock = Frequency{1'000'000'000};
  const double peak = 2e9 * topology.pe.gemm.rows * topology.pe.gemm.columns *
                      topology.pe_count() * topology.cube_count();
  CHECK_FALSE(benches::ddp::compute_mfu(1e6, Time{0}, topology));
  CHECK(*benches::ddp::compute_mfu(1e6, Time{1'000'000}, topology) == Approx(1e12 / peak));
}

// The flight recorder keeps a rank's last 2,000 calls, of which barriers are some.
TEST_CASE("a step of more collectives than are recorded is counted", "[ddp]") {
  constexpr int kCalls = 1500;
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 2), {.data = false});
  torch.distributed.init_process_group("ahbm");
  tp::initialize_model_parallel(torch, {.tensor_model_parallel_size = 2});
  benches::ddp::MeshUse use;
  run_on_devices(torch, 2, [&](int rank) {
    const auto& group = tp::get_tensor_model_parallel_group(torch);
    const Tensor x = torch.zeros({8}, {.dp = DPPolicy::on_one_pe()});
    benches::ddp::MeshMeter meter(torch);
    torch.distributed.all_reduce(x, {.group = group});  // before the step
    torch.ahbm.synchronize();
    meter.begin();
    for (int i = 0; i < kCalls; ++i) {
      torch.distributed.all_reduce(x, {.group = group});
      torch.distributed.barrier({.group = group});
    }
    torch.ahbm.synchronize();
    if (rank == 0) use = meter.end();
  });
  torch.distributed.destroy_process_group();
  CHECK(use.tp.collectives == kCalls);
  CHECK(use.tp.bytes == kCalls * 8 * 4);  // an all_reduce of two ranks sends all of it
  CHECK(use.dp.collectives == 0);
}

// A communication takes its latencies and its bytes over the bandwidth, and exposes what is longer
// than the computation beside it: a convex function of 1 / bandwidth.  So twice the bandwidth
// leaves at most half of what links of any bandwidth could save.
TEST_CASE("links of twice the bandwidth expose less of what a mesh sends", "[cli][ddp]") {
  const auto with_links_of = [](const std::string& bandwidth) {
    return mesh_of(
        "world=2 tp=2 heads=4 hidden=256 seq=256 sequence_parallel=true scheme=zero1 "
        "system.sip_link.bandwidth=" +
        bandwidth);
  };
  const auto number = [](const Json& row, const char* key) { return row[key].get<double>(); };
  const Json one = with_links_of("64GB/s");
  const Json two = with_links_of("128GB/s");
  const double at_once = number(with_links_of("unlimited"), "tp_exposed_ns");
  const double of_one = number(one, "tp_exposed_ns") - at_once;
  const double of_two = number(two, "tp_exposed_ns") - at_once;
  CHECK(of_two > 0);
  CHECK(of_two <= of_one / 2);
  CHECK(number(one, "tp_ns") >= number(one, "tp_bytes") / 64);
  CHECK(number(two, "tp_ns") >= number(two, "tp_bytes") / 128);
  CHECK(two["tp_bytes"] == one["tp_bytes"]);
  CHECK(two["mesh_step_ns"] <= one["mesh_step_ns"]);  // the host issues the kernels in this time
}

TEST_CASE("a mesh has rows for each number of tensor parallel ranks", "[cli][ddp]") {
  std::vector<int> sizes;
  for (const Json& row : rows_of(command("heads=4 world=4 tp=1,2,4 scheme=ddp bucket_cap_mb=1"))) {
    if (row["table"] == "mesh") sizes.push_back(row["tp"].get<int>());
  }
  CHECK(sizes == std::vector<int>{1, 2, 4});
}

TEST_CASE("a mesh that ranks cannot form is refused", "[cli][ddp]") {
  const auto refusal = [](const std::string& settings) {
    const ProgramResult result = run_program(command(settings));
    CHECK(result.exit_code == 2);
    return result.err;
  };
  CHECK_THAT(refusal("world=6 tp=4"), Catch::Contains("[KB-U012] --set tp=4: it does not divide"));
  CHECK_THAT(refusal("world=4 tp=4"), Catch::Contains("tp 4 does not divide heads, which is 2"));
  CHECK_THAT(refusal("world=4 tp=2 scheme=fsdp2"), Catch::Contains("scheme=zero1 or scheme=ddp"));
  CHECK_THAT(refusal("sequence_parallel=true"), Catch::Contains("--set tp=2 or more"));
}

}  // namespace
}  // namespace kernbench::test::ddp_bench_test
