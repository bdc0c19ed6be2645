// Attention beside the real torch's, test/golden/torch_layers.txt.

#include <fstream>
#include <sstream>

#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::nn_attention_test {
namespace {

namespace F = nn::functional;
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<double> torch_elements(const std::string& of_case, const std::string& name) {
  std::ifstream file(KERNBENCH_ROOT "/test/golden/torch_layers.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    words >> first >> second;
    if (first != of_case || second != name) continue;
    std::vector<double> elements;
    for (double element = 0; words >> element;) elements.push_back(element);
    return elements;
  }
  FAIL("torch_layers.txt has no " << of_case << " " << name);
  return {};
}

// Within 2e-6 of the largest element.
void check(const Tensor& is, const std::string& of_case, const std::string& name) {
  const std::vector<double> torch = torch_elements(of_case, name);
  const Floats elements = is.to_vector();
  REQUIRE(elements.size() == torch.size());
  double largest = 0;
  for (const double element : torch) largest = std::max(largest, std::abs(element));
  for (std::size_t i = 0; i < torch.size(); ++i) {
    INFO(of_case << " " << name << " element " << i);
    CHECK(std::abs(elements[i] - torch[i]) <= 2e-6 * largest);
  }
}

Floats numbers(std::int64_t count, std::int64_t a, std::int64_t b, std::int64_t modulus,
               std::int64_t offset, float divisor) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>((a * i + b) % modulus - offset) / divisor);
  }
  return elements;
}

struct Inputs {
  Tensor q, k, v;
};

// The inputs of torch_layers.py; those of its attend() have shapes [s, b, 8].
Inputs inputs(OperatorsUnderTest& dut, const Shape& of_query, const Shape& of_key,
              const DPPolicy& dp) {
  const auto leaf = [&](const Shape& shape, int a, int b, int modulus, int offset) {
    return dut.tensor(shape, numbers(shape.numel(), a, b, modulus, offset, 4), dp).requires_grad_();
  };
  return {leaf(of_query, 5, 1, 13, 6), leaf(of_key, 3, 2, 11, 5), leaf(of_key, 7, 3, 9, 4)};
}

void backward(OperatorsUnderTest& dut, const Tensor& out) {
  out.backward(dut.tensor(out.shape(), numbers(out.numel(), 3, 0, 7, 3, 4), out.dp()));
}

nn::MultiheadAttention attention(OperatorsUnderTest& dut, bool batch_first, const DPPolicy& dp) {
  nn::MultiheadAttention made(
      dut.torch, nn::MultiheadAttentionOptions(8, 2).batch_first(batch_first), {.dp = dp});
  std::int64_t q = 0;
  nn::StateDict state;
  for (const auto& item : made->named_parameters()) {
    const Shape& shape = item.value().shape();
    state.insert(item.key(),
                 RuntimeContext::tensor(numbers(shape.numel(), 7, 11 * q++ + 3, 17, 8, 32), shape));
  }
  made->load_state_dict(state);
  return made;
}

Tensor causal_mask(OperatorsUnderTest& dut, const DPPolicy& dp) {
  return dut.tensor({3, 4}, {0, -kInf, -kInf, -kInf, 0, 0, -kInf, -kInf, 0, 0, 0, -kInf}, dp);
}

TEST_CASE("MultiheadAttention is torch's, with masks and with gradients", "[nn][attention]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = GENERATE(DPPolicy::on_one_pe(), on_pes(kR));
  const Tensor padding = dut.tensor({2, 4}, {0, 0, 0, 0, 0, 0, 0, -kInf}, dp);
  struct Case {
    std::string name;
    nn::MultiheadAttentionMasks masks;
    bool batch_first = false;
  };
  const std::vector<Case> cases = {{"mha", {}},
                                   {"mha-causal", {.attn_mask = causal_mask(dut, dp)}},
                                   {"mha-causal", {.is_causal = true}},
                                   {"mha-causal", {.attn_mask = causal_mask(dut, dp) < 0}},
                                   {"mha-padding", {.key_padding_mask = padding}},
                                   {"mha-padding", {.key_padding_mask = padding < 0}},
                                   {"mha-batch-first", {}, true}};
  for (const auto& [name, masks, batch_first] : cases) {
    const nn::MultiheadAttention mha = attention(dut, batch_first, dp);
    const Inputs x =
        batch_first ? inputs(dut, {2, 3, 8}, {2, 4, 8}, dp) : inputs(dut, {3, 2, 8}, {4, 2, 8}, dp);
    const Tensor out = mha(x.q, x.k, x.v, masks);
    backward(dut, out);
    check(out, name, "out");
    check(x.q.grad(), name, "dquery");
    check(x.k.grad(), name, "dkey");
    check(x.v.grad(), name, "dvalue");
    check(mha->in_proj_weight.grad(), name, "din_proj_weight");
    check(mha->in_proj_bias.grad(), name, "din_proj_bias");
  }
}

TEST_CASE("heads of a query share those of the key in groups, as in torch", "[nn][attention]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = on_pes(kR);
  const Inputs x = inputs(dut, {2, 4, 3, 8}, {2, 2, 5, 8}, dp);
  const Tensor mask = dut.tensor({3, 5}, numbers(15, 5, 2, 7, 3, 2), dp);
  const Tensor out =
      F::scaled_dot_product_attention(x.q, x.k, x.v, {.attn_mask = mask, .enable_gqa = true});
  backward(dut, out);
  check(out, "gqa", "out");
  check(x.q.grad(), "gqa", "dquery");
  check(x.k.grad(), "gqa", "dkey");
  check(x.v.grad(), "gqa", "dvalue");
}

TEST_CASE("a mask of bool is true where a key is seen", "[nn][attention]") {
  OperatorsUnderTest dut;
  const Inputs x = inputs(dut, {2, 2, 3, 8}, {2, 2, 4, 8}, on_pes(kR));
  const Tensor mask = causal_mask(dut, on_pes(kR));
  const Tensor out = F::scaled_dot_product_attention(x.q, x.k, x.v, {.attn_mask = mask == 0});
  CHECK(out.equal(F::scaled_dot_product_attention(x.q, x.k, x.v, {.attn_mask = mask})));
  CHECK_THAT(error([&] {
               F::scaled_dot_product_attention(x.q, x.k, x.v,
                                               {.attn_mask = (mask == 0).to(DType::i64)});
             }),
             Says("KB-F002", "Expected attn_mask dtype to be bool"));
}

TEST_CASE("dropout of attention drops probabilities, and scales the others", "[nn][attention]") {
  OperatorsUnderTest dut;
  const Tensor zeros = dut.torch.zeros({1, 1, 64, 8});
  const Tensor ones = dut.torch.ones({1, 1, 64, 8});
  // All probabilities are 1/64: each output is 1/32 times the number of those that are kept.
  const Floats out =
      F::scaled_dot_product_attention(zeros, zeros, ones, {.dropout_p = 0.5}).to_vector();
  float sum = 0;
  for (std::size_t row = 0; row < 64; ++row) {
    CHECK(out[8 * row] == out[8 * row + 7]);
    CHECK(out[8 * row] * 32 == std::round(out[8 * row] * 32));
    sum += out[8 * row] * 32;
  }
  CHECK(std::abs(sum - 2048) <= 5 * std::sqrt(4096 * 0.25F));
}

TEST_CASE("what attention does not take is refused in torch's words", "[nn][attention]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.zeros({1, 3, 4, 8});
  const Tensor y = dut.torch.zeros({1, 2, 4, 8});
  CHECK_THAT(error([&] {
               F::scaled_dot_product_attention(
                   x, x, x, {.attn_mask = dut.torch.zeros({4, 4}), .is_causal = true});
             }),
             Says("KB-F001", "Explicit attn_mask should not be set when is_causal=True"));
  CHECK_THAT(error([&] { F::scaled_dot_product_attention(x, y, y, {.enable_gqa = true}); }),
             Says("KB-F001", "must divide the number of heads in query"));
  CHECK_THAT(error_of<CollectiveError>([&] { nn::MultiheadAttention(dut.torch, 8, 3); }),
             Says("KB-A010", "embed_dim must be divisible by num_heads"));
}

TEST_CASE("rotary positions turn each pair of features by its angle", "[nn][attention]") {
  OperatorsUnderTest dut;
  const Floats elements = sixteenths(2 * 3 * 6, 1);
  const Tensor x = dut.tensor({2, 3, 6}, elements);
  const nn::RotaryEmbedding rotary(dut.torch, 6, 5, TensorOptions{.dp = DPPolicy::on_one_pe()});
  const Floats y = rotary(x).to_vector();
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double angle =
          static_cast<double>(row % 3) * std::pow(10000.0, -static_cast<double>(i) / 3);
      const double a = elements[row * 6 + i];
      const double b = elements[row * 6 + i + 3];
      CHECK(std::abs(y[row * 6 + i] - (a * std::cos(angle) - b * std::sin(angle))) <= 0x1p-21);
      CHECK(std::abs(y[row * 6 + i + 3] - (b * std::cos(angle) + a * std::sin(angle))) <= 0x1p-21);
    }
  }
}

}  // namespace
}  // namespace kernbench::test::nn_attention_test
