#include "runtime/functional/functional.h"
#include "test/runtime/functional/operators_under_test.h"
#include "test/runtime/functional/reference_operators.h"

namespace kernbench::test::attention_test {
namespace {

namespace F = nn::functional;

TEST_CASE("softmax of rows, however other dimensions are cut", "[attention]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  for (const Shape& shape :
       {Shape{3, 5}, Shape{2, 3, 4}, Shape{7, 1}, Shape{0, 3}, Shape{2, 9001}}) {
    const Floats x = sixteenths(shape.numel(), 1);
    const Tensor y = F::softmax(dut.tensor(shape, x, on_pes(pe)));
    CHECK(y.dp() == on_pes(pe));
    const auto columns = static_cast<std::size_t>(shape[shape.rank() - 1]);
    Numbers expected;
    for_each_row(exactly(x), columns,
                 [&](const Numbers& row) { append(expected, softmax_of_row(row, columns)); });
    check_within(y.to_vector(), expected);
  }
}

struct Sizes {
  std::int64_t heads;
  std::int64_t s;
  std::int64_t t;
  std::int64_t d;
  std::int64_t e;
};

// Head by head.
Numbers attention(const Floats& q, const Floats& k, const Floats& v, const Sizes& sizes,
                  double scale, bool is_causal) {
  const auto size = [](std::int64_t of) { return static_cast<std::size_t>(of); };
  const auto [heads, s, t, d, e] = sizes;
  const Attention of_head{size(s), size(t), size(d), size(e), scale, is_causal};
  Numbers result;
  for (std::size_t head = 0; head < size(heads); ++head) {
    const Inputs inputs = {row_of(exactly(q), head, size(s * d)),
                           row_of(exactly(k), head, size(t * d)),
                           row_of(exactly(v), head, size(t * e))};
    append(result, of_head.forward(inputs, DType::f32));
  }
  return result;
}

TEST_CASE("attention is a softmax of scaled products, times values", "[attention]") {
  OperatorsUnderTest dut;
  const bool is_causal = GENERATE(false, true);
  const Shard pe = GENERATE(kR, kRow);
  for (const Sizes& sizes : {Sizes{2, 3, 3, 4, 4}, Sizes{3, 4, 5, 2, 3}, Sizes{1, 5, 2, 4, 1}}) {
    const auto [heads, s, t, d, e] = sizes;
    const Floats q = sixteenths(heads * s * d, 1);
    const Floats k = sixteenths(heads * t * d, 2);
    const Floats v = sixteenths(heads * t * e, 3);
    const Tensor y = F::scaled_dot_product_attention(
        dut.tensor({heads, s, d}, q, on_pes(pe)), dut.tensor({heads, t, d}, k, on_pes(pe)),
        dut.tensor({heads, t, e}, v, on_pes(pe)), {.is_causal = is_causal});
    CHECK(y.shape() == Shape{heads, s, e});
    CHECK(y.dp() == on_pes(pe));
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    check_within(y.to_vector(), attention(q, k, v, sizes, scale, is_causal));
  }
}

TEST_CASE("the scale of attention may be given", "[attention]") {
  OperatorsUnderTest dut;
  const Sizes sizes{1, 2, 3, 4, 2};
  const Floats q = sixteenths(8, 1);
  const Floats k = sixteenths(12, 2);
  const Floats v = sixteenths(6, 3);
  const Tensor y = F::scaled_dot_product_attention(dut.tensor({2, 4}, q), dut.tensor({3, 4}, k),
                                                   dut.tensor({3, 2}, v), {.scale = 0.25});
  check_within(y.to_vector(), attention(q, k, v, sizes, 0.25, false));
}

TEST_CASE("heads that PEs share have the same bits as on one", "[attention]") {
  OperatorsUnderTest dut;
  const bool is_causal = GENERATE(false, true);
  const auto gradients = [&](const DPPolicy& dp) {
    std::vector<Tensor> leaves;
    for (int i = 0; i < 3; ++i) {
      leaves.push_back(dut.tensor({3, 4, 2}, sixteenths(24, i), dp).requires_grad_());
    }
    const Tensor y =
        F::scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {.is_causal = is_causal});
    y.backward(dut.tensor({3, 4, 2}, sixteenths(24, 5), dp));
    std::vector<Floats> all = {y.to_vector()};
    for (const Tensor& leaf : leaves) all.push_back(leaf.grad().to_vector());
    return all;
  };
  CHECK(gradients(on_pes(kRow)) == gradients(DPPolicy::on_one_pe()));
}

TEST_CASE("what is behind the mask gets no gradient", "[attention]") {
  OperatorsUnderTest dut;
  const Tensor q = dut.leaf({3, 2}, 1);
  const Tensor k = dut.leaf({3, 2}, 2);
  const Tensor v = dut.leaf({3, 2}, 3);
  const Tensor y = F::scaled_dot_product_attention(q, k, v, {.is_causal = true});
  y.backward(dut.tensor({3, 2}, {1, 1, 0, 0, 0, 0}));  // the first row sees the first column alone
  CHECK(v.grad().to_vector() == Floats{1, 1, 0, 0, 0, 0});
  CHECK(q.grad().to_vector() == Floats(6, 0));
  CHECK(k.grad().to_vector() == Floats(6, 0));
}

TEST_CASE("of rows that do not fit scratch the error says what helps", "[attention]") {
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = 2048;  // 512 numbers of f32
  OperatorsUnderTest dut(topology);
  const auto error = [&](const auto& apply) {
    return error_of<DeviceError>([&] {
      apply(dut.leaf({2, 400}, 1));
      dut.torch.ahbm.synchronize();
    });
  };
  CHECK_THAT(error([](const Tensor& x) { F::softmax(x); }),
             Says("KB-M010", "softmax", "400 elements", "pe.tcm.capacity", "out of TCM: tl."));
  CHECK_THAT(error([](const Tensor& x) { F::layer_norm(x, {400}); }),
             Says("KB-M010", "layer_norm", "400 elements"));
  CHECK_THAT(error([&](const Tensor& x) {
               F::cross_entropy(x, dut.tensor({2}, {0, 1}), {.weight = dut.leaf({400}, 2)});
             }),
             Says("KB-M010", "log_softmax", "400 elements"));
}

TEST_CASE("a mask of attention may be of bool", "[attention]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f32, DType::f16);
  const auto leaf = [&](int seed) {
    return dut.leaf({2, 3, 4}, seed, DPPolicy::on_one_pe(), dtype);
  };
  const Tensor seen = dut.tensor({3, 3}, {1, 0, 1, 1, 1, 0, 0, 1, 1}) != 0;
  const Tensor added = masked_fill(seen.to(dtype) * 0, ~seen, -HUGE_VAL);
  const auto run = [&](const Tensor& mask) {
    const std::vector<Tensor> of{leaf(1), leaf(2), leaf(3)};
    const Tensor y = F::scaled_dot_product_attention(of[0], of[1], of[2], {.attn_mask = mask});
    sum(y).backward();
    return std::pair(y.to_vector(), of[0].grad().to_vector());
  };
  CHECK(run(seen) == run(added));
}

TEST_CASE("softmax refuses rows that no PE has whole", "[attention]") {
  OperatorsUnderTest dut;
  const auto error = [&](const DPPolicy& dp, int dim) {
    return error_of<DeviceError>([&] { F::softmax(dut.leaf({2, 3}, 1, dp), dim); });
  };
  CHECK_THAT(error(on_pes(kColumn), -1), Says("KB-F003", "its rows are needed whole"));
  CHECK_THAT(error(on_pes(kPartial), -1), Says("KB-F003", "softmax"));
  CHECK_THAT(error(on_pes(kR), 2), Says("KB-F001", "softmax", "range of [-2, 1], but got 2"));
}

}  // namespace
}  // namespace kernbench::test::attention_test
