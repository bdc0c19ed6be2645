#include <fmt/format.h>
#include <kernbench/kernbench.h>

#include <string_view>
#include <vector>

namespace kb = kernbench;
namespace F = kb::nn::functional;

constexpr std::int64_t kHidden = 32;
constexpr std::int64_t kSequence = 16;
constexpr std::int64_t kLetters = 128;

struct BlockImpl : kb::nn::Module {
  BlockImpl(const kb::RuntimeContext& torch, const kb::TensorOptions& t)
      : ln1(register_module("ln1", kb::nn::LayerNorm(torch, kHidden, t))),
        attention(register_module("attention", kb::nn::MultiheadAttention(torch, kHidden, 2, t))),
        ln2(register_module("ln2", kb::nn::LayerNorm(torch, kHidden, t))),
        up(register_module("up", kb::nn::Linear(torch, kHidden, 4 * kHidden, t))),
        down(register_module("down", kb::nn::Linear(torch, 4 * kHidden, kHidden, t))) {}
  kb::Tensor forward(const kb::Tensor& x) const {
    const kb::Tensor h = ln1(x);
    const kb::Tensor y = x + attention->forward(h, h, h, {.is_causal = true});
    return y + down(F::gelu(up(ln2(y))));
  }
  kb::nn::LayerNorm ln1;
  kb::nn::MultiheadAttention attention;
  kb::nn::LayerNorm ln2;
  kb::nn::Linear up, down;
};
KERNBENCH_MODULE(Block);

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} TOPOLOGY\n", argv[0]);
    return 2;
  }
  kb::RuntimeContext torch{kb::Topology::load(argv[1])};
  torch.manual_seed(0);
  const kb::TensorOptions on_one_pe{.dp = kb::DPPolicy::on_one_pe()};
  const kb::nn::Sequential gpt(kb::nn::Embedding(torch, kLetters, kHidden, on_one_pe),
                               Block(torch, on_one_pe), Block(torch, on_one_pe),
                               kb::nn::LayerNorm(torch, kHidden, on_one_pe),
                               kb::nn::Linear(torch, kHidden, kLetters, on_one_pe));
  kb::optim::AdamW optimizer(gpt->parameters(), 1e-2);

  constexpr std::string_view text = "to be or not to ";
  std::vector<float> letters;
  for (std::size_t i = 0; i < 2 * text.size(); ++i) letters.push_back(text[i % text.size()]);
  const kb::Tensor x = torch.tensor({letters.data(), kSequence}, {kSequence, 1}, on_one_pe);
  const kb::Tensor next = torch.tensor({letters.data() + 1, kSequence}, {kSequence}, on_one_pe);
  double loss_now = 0;
  for (int step = 0; step < 50; ++step) {
    optimizer.zero_grad();
    const kb::Tensor loss = F::cross_entropy(gpt(x).view({kSequence, kLetters}), next);
    loss.backward();
    kb::nn::utils::clip_grad_norm_(gpt->parameters(), 1.0);
    optimizer.step();
    loss_now = loss.item<double>();
    if (step % 10 == 0) fmt::print("step {}: loss {:.4f}\n", step, loss_now);
  }
  kb::nn::save(gpt->state_dict(), "gpt.npz");
  fmt::print("{:.3f} us on the device, at most {} B of its memory\n",
             torch.engine().now_ns() / 1000, torch.ahbm.max_memory_allocated());
  return loss_now < 0.1 ? 0 : 1;
}
