// Configurations of the bench `train`, and how many of their layers fit.

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "benches/train/configuration.h"
#include "benches/train/memory_estimate.h"
#include "benches/train/train.h"
#include "benches/train/training.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/benches/program_json.h"
#include "test/benches/program_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::benches::train_configuration_test {
namespace {

using Catch::Matchers::Contains;
using test::run_program;
using train::Configuration;
using train::ConfiguredModel;
using train::LanguageModelSize;
using train::ModelKind;

constexpr LanguageModelSize kGrouped{
    .layers = 1, .hidden = 8, .heads = 2, .kv_heads = 1, .ffn = 16, .seq = 4, .batch = 4};

ConfiguredModel read(const std::vector<std::string>& settings) {
  return train::read_model(Settings(train::train_bench().settings, settings),
                           {.least_vocab = 128});
}

// Calls `body` as the only rank of a device of one PE.
void run_on_pe(const std::function<void(RuntimeContext&)>& body) {
  RuntimeContext torch(test::round_topology(SipTopology::ring_1d, 1, 1));
  torch.distributed.init_process_group("ahbm");
  run_ranks(torch, 1, [&](int) { body(torch); });
}

// The head of the GPT-2 that is published shares the weights of its table of tokens, 50257 x 768.
TEST_CASE("configurations have the numbers of parameters that are published", "[train]") {
  const auto count = [](Configuration name) {
    const ConfiguredModel model = published_model(name);
    return count_parameters(model.kind, model.size).all();
  };
  CHECK(count(Configuration::gpt2) == 124'439'808 + 50257 * 768);
  CHECK(count(Configuration::llama3_8b) == 8'030'261'248);
  CHECK(count(Configuration::llama3_70b) == 70'553'706'496);
}

TEST_CASE("parameters are counted as the models have them", "[train]") {
  const ModelKind kind = GENERATE(ModelKind::gpt, ModelKind::llama);
  LanguageModelSize size = kGrouped;
  size.layers = 3;
  run_on_pe([&](RuntimeContext& torch) {
    const train::Training training(torch, {.model = kind, .size = size});
    double matrices = 0;
    double vectors = 0;
    for (const Tensor& parameter : training.model().parameters()) {
      (parameter.dim() == 2 ? matrices : vectors) += static_cast<double>(parameter.numel());
    }
    CHECK(count_parameters(kind, size).matrices == matrices);
    CHECK(count_parameters(kind, size).vectors == vectors);
  });
}

TEST_CASE("each size of a configuration can be overruled", "[train]") {
  const ConfiguredModel plain = read({"config=llama3-8b"});
  CHECK(plain.kind == ModelKind::llama);
  CHECK(plain.size.seq == 8192);
  CHECK_FALSE(plain.has_given_layers);
  const ConfiguredModel changed =
      read({"config=llama3-8b", "layers=2", "kv_heads=4", "vocab=1024", "seq=32", "batch=8"});
  CHECK(changed.has_given_layers);
  CHECK(changed.size.hidden == 4096);
  CHECK(changed.size.key_heads() == 4);
  CHECK(changed.size.kv_features() == 512);
  CHECK(changed.size.ffn_features() == 14336);
  CHECK(changed.size.tokens() == 256);
  CHECK(describe_layers(changed) == "2 of the 32 layers of llama3-8b with kv_heads 4, vocab 1024");
  CHECK(describe_layers(read({"config=gpt2", "layers=13"})) == "13 layers as those of gpt2");
}

TEST_CASE("without a configuration sizes are as before", "[train]") {
  const ConfiguredModel model = read({"hidden=64", "heads=4"});
  CHECK(model.kind == ModelKind::gpt);
  CHECK(model.has_given_layers);
  CHECK(model.size.layers == 2);
  CHECK(model.size.key_heads() == 4);
  CHECK(model.size.ffn_features() == 256);
  CHECK(model.size.tokens() == 32);
  CHECK(describe_layers(model).empty());
}

// A layer has 2 * 8 * (8 + 4) + 3 * 8 * 16 = 576 weights of matrices and 16 of norms, the rest
// 2 * 128 * 8 and 8: 592 L + 2056 in f32, with two moments.  Each of 16 tokens keeps
// 8 * 8 + 3 * 4 + 4 * 16 = 140 elements a layer, and 4 * 8 + 2 * 128; the head's gradient has 1024.
// Both together, 12 (592 L + 2056) + 4 (16 (140 L + 288) + 1024) = 16064 L + 47200 bytes, are 95 %
// of a slice.
TEST_CASE("as many layers are used as fit into a PE's HBM", "[train]") {
  Topology topology = test::round_topology();  // a slice for each of a cube's two PEs
  const auto count = [&](Bytes slice, const train::UsedPes& on) {
    topology.cube.hbm.capacity = 2 * slice;
    return train::count_layers_that_fit(
        topology, {.model = ModelKind::llama, .size = kGrouped, .on = on}, 32);
  };
  CHECK(count(100'413, {}) == 3);
  CHECK(count(100'412, {}) == 2);
  CHECK(count(60'000, {}) == 0);
  CHECK(count(Bytes{1} << 30, {}) == 32);
  topology.cube.hbm.channels = 1;  // one slice, which two PEs share
  CHECK(count(50'207, {}) == 3);
  CHECK(train::hbm_of_pe(topology, {.pes = 2}) == 50'207);
}

// Each of 4 PEs has a quarter of the matrices' 2624 elements and the 24 others: 680, with a master
// and two moments in f32 and, when backward has ended, a gradient in each type.
TEST_CASE("masters and their gradients are counted, and copies of vectors", "[train]") {
  CHECK(train::estimate_bytes_of_pe({.model = ModelKind::llama,
                                     .size = kGrouped,
                                     .dtype = DType::bf16,
                                     .on = {.cubes = 2, .pes = 2}}) == 680 * (2 + 4 + 8 + 2 + 4));
}

// 576 weights in each of two layers and 1024 in the head, of 16 tokens; of each of 4 samples half
// of the scores 4 x 4, with all features of the query.
TEST_CASE("FLOPs count what grouped heads and the MLP have", "[train]") {
  LanguageModelSize size = kGrouped;
  size.layers = 2;
  run_on_pe([&](RuntimeContext& torch) {
    const train::Training training(torch, {.model = ModelKind::llama, .size = size});
    CHECK(count_flops(training.model(), size) ==
          6.0 * (2 * 576 + 1024) * 16 + 12.0 * (4 * 4 * 4 / 2) * 8 * 2);
  });
}

// Gives keys and values of `to` the rows of the heads that they share in `from`.
void copy_heads(const train::Training& from, const train::Training& to, std::int64_t shared_by) {
  const auto target = to.model().named_parameters();
  for (const auto& item : from.model().named_parameters()) {
    const Tensor& weight = item.value();
    auto elements = weight.to_vector<float>();
    if (item.key().ends_with("k.weight") || item.key().ends_with("v.weight")) {
      const auto head = static_cast<std::ptrdiff_t>(4 * weight.size(1));  // of depth 4
      std::vector<float> repeated;
      for (auto at = elements.begin(); at != elements.end(); at += head) {
        for (std::int64_t i = 0; i < shared_by; ++i) repeated.insert(repeated.end(), at, at + head);
      }
      elements = std::move(repeated);
    }
    runtime::set_elements(*target[item.key()].storage(), elements);
  }
}

TEST_CASE("grouped heads give the loss of heads that have the same keys and values", "[train]") {
  const LanguageModelSize grouped{.hidden = 16, .heads = 4, .kv_heads = 2};
  const LanguageModelSize whole{.hidden = 16, .heads = 4};
  run_on_pe([&](RuntimeContext& torch) {
    train::Training few(torch, {.model = ModelKind::llama, .size = grouped});
    train::Training many(torch, {.model = ModelKind::llama, .size = whole});
    copy_heads(few, many, 2);
    CHECK(few.step().loss == Approx(many.step().loss).epsilon(1e-6));
  });
}

TEST_CASE("a sample may be longer than the text", "[train]") {
  run_on_pe([&](RuntimeContext& torch) {
    const LanguageModelSize size{.layers = 1, .hidden = 4, .heads = 1, .seq = 1300, .batch = 1};
    train::Training training(torch, {.size = size});
    CHECK(training.step().loss == Approx(std::log(128)).margin(1));
  });
}

TEST_CASE("the head of train says how many layers of its configuration run", "[cli][train]") {
  const auto run = [](const std::string& layers) {
    const auto result =
        run_program({"run", "--bench", "train", "--topology", "tiny", "--set", "config=gpt2",
                     "hidden=24", "vocab=128", "seq=8", "values=false", "steps=1", layers});
    CHECK(result.exit_code == 0);
    return result.out;
  };
  CHECK_THAT(run("layers=2"), Contains("gpt, 2 of the 12 layers of gpt2 with hidden 24"));
  CHECK_THAT(run("batch=2"), Contains("gpt, all 12 layers of gpt2 with hidden 24"));
}

// 124 million parameters of an embedding each token and of the head: 163 million.
TEST_CASE("values cost the host too much where they take an hour or 8 GiB", "[train]") {
  LanguageModelSize size = train::published_model(Configuration::gpt2).size;
  size.batch = 1;
  const auto cost = [&](std::int64_t steps) {
    return train::estimate_host_cost({.model = train::ModelKind::gpt, .size = size}, steps);
  };
  const double parameters = train::count_parameters(train::ModelKind::gpt, size).all();
  CHECK(cost(50).hours == Approx(6 * parameters * 1024 * 50 / 8e9 / 3600));
  CHECK(cost(50).is_high());
  CHECK_FALSE(cost(1).is_high());
  size.hidden = 4096;
  CHECK(cost(1).hours < 1);
  CHECK(cost(1).is_high());
}

TEST_CASE("a configuration has values where they cost little, else two steps, and is of bf16",
          "[cli][train]") {
  const auto arguments = [](std::vector<std::string> more) {
    std::vector<std::string> all{"run",      "--bench",   "train", "--set",    "config=gpt2",
                                 "layers=1", "vocab=128", "seq=8", "hidden=24"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto with_values = test::json_of(arguments({"steps=3", "--json", "-"}))["rows"];
  CHECK(with_values.size() == 3);
  CHECK(with_values[0]["loss"].is_number());
  const auto times_alone = test::json_of(arguments({"values=false", "--json", "-"}))["rows"];
  CHECK(times_alone.size() == 2);
  CHECK(times_alone[0]["loss"].is_null());
  CHECK_THAT(run_program(arguments({"steps=1"})).out, Contains("parameters of bf16"));
}

TEST_CASE("the layers that are chosen fit, and two more do not", "[cli][train]") {
  const auto run = [](const std::vector<std::string>& settings) {
    std::vector<std::string> arguments{"run",
                                       "--bench",
                                       "train",
                                       "--set",
                                       "hidden=256",
                                       "heads=4",
                                       "vocab=128",
                                       "cubes=4",
                                       "values=false",
                                       "steps=2",
                                       "cube.hbm.capacity=32 MiB"};
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    return run_program(arguments);
  };
  std::vector<std::string> llama{"config=llama3-8b", "kv_heads=2", "ffn=896",
                                 "batch=32",         "seq=32",     "dtype=bf16"};
  std::vector<std::string> gpt{"config=gpt2", "batch=4", "seq=8", "dtype=f32"};
  const auto llama_that_fits = run(llama);
  CHECK(llama_that_fits.exit_code == 0);
  CHECK_THAT(llama_that_fits.out, Contains("4 of the 32 layers of llama3-8b"));
  const auto gpt_that_fits = run(gpt);
  CHECK(gpt_that_fits.exit_code == 0);
  CHECK_THAT(gpt_that_fits.out, Contains("9 of the 12 layers of gpt2"));
  llama.emplace_back("layers=6");
  CHECK_THAT(run(llama).err, Contains("[KB-M010] out of HBM"));
  gpt.emplace_back("layers=11");
  CHECK_THAT(run(gpt).err, Contains("[KB-M010] out of HBM"));
}

TEST_CASE("a configuration that cannot be run says what to write", "[cli][errors][train]") {
  const auto error = [](const std::vector<std::string>& settings) {
    std::vector<std::string> arguments{"run", "--bench", "train", "--set"};
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    const auto result = run_program(arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK_THAT(error({"config=llama3"}), Contains("[KB-U012] --set config: 'llama3' is not known"));
  CHECK_THAT(error({"config=llama3-8b", "kv_heads=5"}),
             Contains("[KB-U012] train: heads 32 is no multiple of kv_heads 5"));
  CHECK_THAT(
      error({"config=llama3-8b", "values=false", "cubes=1", "pes=1"}),
      Contains("[KB-U012] train: not one layer of llama3-8b fits: batch=1 of 8192 tokens"));
  CHECK_THAT(error({"config=gpt2", "values=true"}),
             Contains("[KB-U012] train: the values of 50 steps") &&
                 Contains("leave out values=true for the times alone"));
  CHECK_THAT(error({"seq=8193"}), Contains("[KB-U012] --set seq: "));
}

// An array of small_topology's PE has as many rows as it says, and a row of tokens fills one.
TEST_CASE("as many PEs are used as the tokens of a step fill, unless they are given", "[train]") {
  Topology topology = test::round_topology(SipTopology::ring_1d, 1, 1, 4, 1);
  const std::int64_t rows = topology.pe.gemm.rows;
  const int pes = topology.pe_count();
  const auto on = [&](std::int64_t tokens, const std::vector<std::string>& settings = {}) {
    const train::UsedPes used =
        train::read_pes(Settings(train::train_bench().settings, settings), topology, tokens);
    return std::pair(used.cubes, used.pes);
  };
  CHECK(on(1) == std::pair(1, 1));
  CHECK(on(rows) == std::pair(1, 1));
  CHECK(on(rows * 3) == std::pair(3, 1));
  CHECK(on(rows * 4) == std::pair(4, 1));
  CHECK(on(rows * 4 + 1) == std::pair(4, 2));
  CHECK(on(rows * pes * 1000) == std::pair(4, pes));
  CHECK(on(rows * pes * 1000, {"cubes=3"}) == std::pair(3, pes));
  CHECK(on(rows * 3, {"pes=1"}) == std::pair(3, 1));
  CHECK(on(1, {"cubes=2", "pes=2"}) == std::pair(2, 2));
}

}  // namespace
}  // namespace kernbench::benches::train_configuration_test
