// The buckets of a small GPT, beside those of torch 1.13.1 (test/golden/ddp_buckets.txt).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::ddp_buckets_test {
namespace {

namespace functional = nn::functional;

constexpr std::int64_t kVocabulary = 1000;
constexpr std::int64_t kTokens = 64;
constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kHeads = 4;
constexpr int kLayers = 4;

struct BlockImpl : nn::Module {
  explicit BlockImpl(const RuntimeContext& torch)
      : ln1(register_module("ln1", nn::LayerNorm(torch, kHidden, kOnOnePe))),
        qkv(register_module("qkv", nn::Linear(torch, kHidden, 3 * kHidden, kOnOnePe))),
        proj(register_module("proj", nn::Linear(torch, kHidden, kHidden, kOnOnePe))),
        ln2(register_module("ln2", nn::LayerNorm(torch, kHidden, kOnOnePe))),
        fc1(register_module("fc1", nn::Linear(torch, kHidden, 4 * kHidden, kOnOnePe))),
        fc2(register_module("fc2", nn::Linear(torch, 4 * kHidden, kHidden, kOnOnePe))) {}

  Tensor forward(const Tensor& x) const {
    const Tensor all = qkv(ln1(x));
    const auto heads = [&](std::int64_t i) {
      return all.narrow(1, i * kHidden, kHidden)
          .view({1, kTokens, kHeads, kHidden / kHeads})
          .transpose(1, 2);
    };
    const Tensor attended =
        functional::scaled_dot_product_attention(heads(0), heads(1), heads(2), {.is_causal = true});
    const Tensor y = x + proj(attended.transpose(1, 2).reshape({kTokens, kHidden}));
    return y + fc2(functional::gelu(fc1(ln2(y))));
  }

  nn::LayerNorm ln1;
  nn::Linear qkv, proj;
  nn::LayerNorm ln2;
  nn::Linear fc1, fc2;
};
KERNBENCH_MODULE(Block);

struct GptImpl : nn::Module {
  GptImpl(const RuntimeContext& torch, bool is_tied)
      : wte(register_module("wte", nn::Embedding(torch, kVocabulary, kHidden, kOnOnePe))),
        wpe(register_module("wpe", nn::Embedding(torch, kTokens, kHidden, kOnOnePe))) {
    register_module("blocks", blocks);
    for (int i = 0; i < kLayers; ++i) blocks->push_back(Block(torch));
    ln = register_module("ln", nn::LayerNorm(torch, kHidden, kOnOnePe));
    if (is_tied) return;
    const auto options = nn::LinearOptions(kHidden, kVocabulary).bias(false);
    head = register_module("head", nn::Linear(torch, options, kOnOnePe));
  }

  Tensor forward(const Tensor& tokens) const {
    Tensor x = wte(tokens);  // before wpe(tokens), as in Python
    x = x + wpe(tokens);
    for (const Block& block : *blocks) x = block(x);
    return functional::linear(ln(x), head ? head->weight : wte->weight);
  }

  nn::Embedding wte, wpe;
  nn::ModuleList<Block> blocks;
  nn::LayerNorm ln = nullptr;
  nn::Linear head = nullptr;
};
KERNBENCH_MODULE(Gpt);

template <class Range>
std::string joined(const Range& range, std::string_view separator) {
  return fmt::format("{}", fmt::join(range, separator));
}

// A section of the golden file, made by two steps on rank 0.
std::string section(bool is_tied, int cap) {
  DataParallelWorld world(2, "local", {.data = false});
  std::string text = fmt::format("## V=1000 T=64 h=256 heads=4 L=4 tied={} bucket_cap_mb={} {{}}\n",
                                 is_tied ? "True" : "False", cap);
  world.spawn([&](int rank) {
    const Gpt gpt(world.torch, is_tied);
    nn::parallel::DistributedDataParallel ddp(gpt, {.bucket_cap_mb = static_cast<double>(cap)});
    const Tensor tokens = world.torch.zeros({kTokens}, kOnOnePe);
    ddp(tokens).sum().backward();
    const nn::parallel::DDPLoggingData first = ddp->_get_ddp_logging_data();
    ddp->zero_grad();
    ddp(tokens).sum().backward();
    const nn::parallel::DDPLoggingData second = ddp->_get_ddp_logging_data();
    if (rank != 0) return;
    std::vector<std::string> names;
    for (const std::string& name : gpt->named_parameters().keys()) {
      names.push_back(fmt::format("{}:{}", names.size(), name));
    }
    std::vector<std::string> buckets;
    for (const auto& bucket : second.rebuilt_per_bucket_param_indices) {
      buckets.push_back(joined(bucket, " "));
    }
    text += fmt::format(
        "  parameters in order: {}\n  gradient arrival order: {}\n  bucket bytes, first iteration: "
        "{}  then: {}\n  rebuilt, parameters per bucket: {}\n",
        joined(names, " "), joined(first.prev_iteration_grad_ready_order_indices, ", "),
        joined(second.bucket_sizes, ", "), joined(second.rebuilt_bucket_sizes, ", "),
        joined(buckets, ", "));
  });
  return text;
}

TEST_CASE("a GPT's gradients arrive, and share buckets, as torch's do, byte for byte", "[ddp]") {
  std::ifstream file(std::filesystem::path(KERNBENCH_ROOT) / "test/golden/ddp_buckets.txt");
  std::stringstream golden;
  golden << file.rdbuf();
  const std::string text = golden.str();
  REQUIRE(text.find("## ") != std::string::npos);
  CHECK(section(false, 25) + section(true, 4) == text.substr(text.find("## ")));
}

// Others of torch's, from the same run.
TEST_CASE("torch's buckets with other caps, and with unused parameters to find", "[ddp]") {
  const auto sizes_of = [](const nn::parallel::DistributedDataParallelOptions& options) {
    DataParallelWorld world(2, "local", {.data = false});
    std::vector<Bytes> sizes;
    world.spawn([&](int) {
      nn::parallel::DistributedDataParallel ddp(Gpt(world.torch, false), options);
      const Tensor tokens = world.torch.zeros({kTokens}, kOnOnePe);
      for (int i = 0; i < 2; ++i) ddp(tokens).sum().backward();
      const auto data = ddp->_get_ddp_logging_data();
      sizes = data.has_rebuilt_buckets ? data.rebuilt_bucket_sizes : data.bucket_sizes;
    });
    return sizes;
  };
  CHECK(sizes_of({.bucket_cap_mb = 4}) ==
        std::vector<Bytes>{2'075'648, 4'211'712, 4'213'760, 4'250'624});
  CHECK(sizes_of({.bucket_cap_mb = 4, .find_unused_parameters = true}) ==
        std::vector<Bytes>{1'027'072, 4'211'712, 4'210'688, 4'212'736, 1'089'536});
}

}  // namespace
}  // namespace kernbench::test::ddp_buckets_test
