// kb::compile with operators along rows (ADR-0242): sums, extremes, softmax and norms of whole
// rows, and what repeats their results, are part of a kernel.

#include "runtime/functional/functional.h"
#include "test/runtime/functional/compiled_functions.h"

namespace kernbench::test::compiled {
namespace {

using nn::functional::layer_norm;
using nn::functional::log_softmax;
using nn::functional::rms_norm;
using nn::functional::silu;
using nn::functional::softmax;

// [16, 64], as Counted::input() makes them.
constexpr std::int64_t kRows = 16;
constexpr std::int64_t kColumns = 64;

Tensor softmax_by_hand(const Tensor& x) {
  const Tensor e = exp(x - x.amax(-1, true));
  return e / e.sum(-1, true);
}
Tensor rms_by_hand(const Tensor& x, const Tensor& weight) {
  return x * rsqrt((x * x).mean(-1, true) + 1e-3) * weight;
}

struct Chain {
  std::string name;
  std::function<Tensor(const Tensor& x, const Tensor& gate, const Tensor& weight)> of;
  std::size_t kernels = 0;  // without compile()
  int loads = 0;            // of the tensors, without compile()
  int stores = 0;
  int columns = 0;  // loads and stores of one element per row, without compile()
  int weights = 0;  // loads, without compile()
  int inputs = 1;   // loads, compiled
  bool has_weight = false;
};

std::vector<Chain> chains() {
  return {
      {"softmax", [](auto& x, auto&, auto&) { return softmax(x * 0.5, -1) + 1; }, 3, 3, 3},
      // amax and sum load a tensor and store a column, which x - amax and e / sum load.
      {"softmax by hand", [](auto& x, auto&, auto&) { return softmax_by_hand(x); }, 5, 5, 3, 4},
      {"rms_norm and a gate",
       [](auto& x, auto& gate, auto& w) { return silu(rms_norm(x, {kColumns}, w)) * gate; }, 3, 4,
       3, 0, 1, 2, true},
      // x * x, its mean, + 1e-3, rsqrt, x * r, * w
      {"rms_norm by hand", [](auto& x, auto&, auto& w) { return rms_by_hand(x, w); }, 6, 5, 3, 6, 1,
       1, true},
      {"layer_norm of a sum",
       [](auto& x, auto& gate, auto& w) { return layer_norm(x + gate, {kColumns}, w, w) * 2; }, 3,
       4, 3, 0, 2, 2, true},
  };
}

TEST_CASE("operators along rows are part of a compiled kernel", "[compile]") {
  for (const DType dtype : kDTypes) {
    for (const Chain& chain : chains()) {
      INFO(chain.name << " " << name_of(dtype));
      Counted dut(dtype);
      const Tensor x = dut.input(1);
      const Tensor gate = dut.input(2);
      const Tensor weight = dut.input(3, {kColumns});
      const Bytes of_column = dut.bytes(1, {kRows, 1});
      const Bytes of_weight = dut.bytes(1, {kColumns});
      Tensor eager;
      Tensor compiled;
      const Work without = dut.of([&] { eager = chain.of(x, gate, weight); });
      const Work with = dut.of([&] { compiled = compile(chain.of)(x, gate, weight); });
      CHECK(without.kernels == chain.kernels);
      CHECK(without.loaded + without.stored == dut.bytes(chain.loads + chain.stores) +
                                                   chain.columns * of_column +
                                                   chain.weights * of_weight);
      CHECK(with ==
            Work{1, dut.bytes(chain.inputs) + (chain.has_weight ? of_weight : 0), dut.bytes(1)});
      CHECK(bits(compiled.to_vector()) == bits(eager.to_vector()));
    }
  }
}

std::vector<Case> functions_along_rows() {
  return {
      {"softmax", [](auto& a, auto& b, auto&) { return softmax(a * 0.5 + b, -1) * b; }},
      {"softmax by hand", [](auto& a, auto& b, auto&) { return softmax_by_hand(a + b) * b; }},
      {"norms",
       [](auto& a, auto& b, auto& row) {
         return silu(layer_norm(a + b, {12}, row, row)) * rms_norm(b * 2, {12}, row);
       }},
      {"a norm by hand", [](auto& a, auto& b, auto& row) { return rms_by_hand(a + b, row); }},
      {"columns of columns",
       [](auto& a, auto& b, auto&) {
         const Tensor mean = a.mean(-1, true) * 2 + 1;
         return (a - mean) * b.sum(-1, true) + (mean * mean).sum(-1, true) + b.norm(2, -1, true);
       }},
      // The gradient of softmax(a) is one number in each row.
      {"a gradient that repeats along rows",
       [](auto& a, auto& b, auto&) {
         return softmax(a, -1).sum(-1, true) * log_softmax(b * 3, -1) + b.tril(1).amin(-1, true);
       }},
  };
}

TEST_CASE("compiled functions along rows compute the bits of the functions", "[compile]") {
  for (const Case& of : functions_along_rows()) {
    for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_pes(kR), on_pes(kRow), on_cubes(kRow)}) {
      for (const DType dtype : kDTypes) {
        INFO(of.name << " " << name_of(dtype) << " " << static_cast<int>(dp.cube) << " "
                     << static_cast<int>(dp.pe));
        const Outcome eager = run(of, dp, dtype, false);
        const Outcome compiled = run(of, dp, dtype, true);
        CHECK(compiled.has_values_of(eager));
        CHECK(compiled.kernels < eager.kernels);
      }
    }
  }
}

TEST_CASE("a sum over columns that holders share ends a chain", "[compile]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({4, 12}, sixteenths(48, 1), on_pes(kColumn));
  const auto sums = [](const Tensor& of) { return (of * 2 + 1).sum(-1, true) * 0.5; };
  const Tensor eager = sums(x);
  const Tensor compiled = compile(sums)(x);
  CHECK(compiled.dp().pe == kPartial);
  CHECK(compiled.to_vector() == eager.to_vector());
}

TEST_CASE("the rows of matrices have their numbers in a compiled kernel", "[compile]") {
  Counted dut;
  const auto masked = [](const Tensor& x) { return (x * 2 + 1).tril() + x.triu(1) * 3; };
  const auto attend = [](const Tensor& x) {
    return nn::functional::scaled_dot_product_attention(x * 0.5, x, x + 1, {.is_causal = true});
  };
  for (const Shape& shape : {Shape{5, 8}, Shape{3, 5, 8}, Shape{2, 3, 5, 8}, Shape{2, 1, 8}}) {
    const Tensor x = dut.input(1, shape);
    Tensor y;
    CHECK(dut.of([&] { y = compile(masked)(x); }) ==
          Work{1, dut.bytes(1, shape), dut.bytes(1, shape)});
    CHECK(y.to_vector() == masked(x).to_vector());
    CHECK(compile(attend)(x).to_vector() == attend(x).to_vector());
  }
}

TEST_CASE("what backward needs of each row is stored by the forward kernel", "[compile]") {
  Counted dut;
  const Tensor x = dut.input(1).requires_grad_();
  const Tensor weight = dut.input(2, {kColumns});
  Tensor y;
  // Without a gradient nobody has a handle to the factor of a row.
  CHECK(dut.of([&] { compile(rms_by_hand)(x.detach(), weight); }).stored == dut.bytes(1));
  CHECK(dut.of([&] { y = compile(rms_by_hand)(x, weight); }).stored ==
        dut.bytes(1) + dut.bytes(1, {kRows, 1}));
  // The kernel loads dy, x, the weight and the factors, and stores dx.
  const Tensor dy = dut.input(3);
  CHECK(dut.of([&] { y.backward(dy); }) ==
        Work{1, dut.bytes(2) + dut.bytes(1, {kColumns}) + dut.bytes(1, {kRows, 1}), dut.bytes(1)});
  const Tensor other = x.detach().clone().requires_grad_();
  rms_by_hand(other, weight).backward(dy);
  CHECK(x.grad().to_vector() == other.grad().to_vector());
}

TEST_CASE("what an operator along rows reads is stored for others who need it", "[compile]") {
  Counted dut;
  const Tensor a = dut.input(1);
  const Tensor b = dut.input(2);
  const Shape square{kColumns, kColumns};
  const Tensor w = dut.input(3, square);
  // A transformer's layer normalizes h, and adds it to what comes of it.
  const auto layer = [&](const Tensor& x, const Tensor& y) {
    const Tensor h = x + y;
    return h + matmul(rms_norm(h, {kColumns}), w);
  };
  Tensor compiled;
  // x + y and rms_norm; the product; the sum, which loads h.
  CHECK(dut.of([&] { compiled = compile(layer)(a, b); }) ==
        Work{3, dut.bytes(2 + 1 + 2) + dut.bytes(1, square), dut.bytes(2 + 1 + 1)});
  CHECK(compiled.to_vector() == layer(a, b).to_vector());
}

TEST_CASE("a reduction of all rows computes the chain that it reads", "[compile]") {
  Counted dut;
  const Shape shape{40, 25, kColumns};  // eight blocks of scratch, the last one not full
  const Tensor x = dut.input(1, shape);
  const Tensor gate = dut.input(2, shape);
  const Tensor row = dut.input(3, {kColumns});
  const auto check = [&](const auto& of, const Work& work) {
    Tensor compiled;
    CHECK(dut.of([&] { compiled = compile(of)(x, gate); }) == work);
    CHECK(compiled.to_vector() == of(x, gate).to_vector());
  };
  const Bytes of_row = dut.bytes(1, {kColumns});
  const Work one_kernel{1, dut.bytes(2, shape), of_row};
  check([](auto& a, auto& b) { return (silu(a) * b).sum({0, 1}, true); }, one_kernel);
  check([](auto& a, auto& b) { return (a + b).mean({0, 1}); }, one_kernel);
  check([](auto& a, auto& b) { return softmax_by_hand(a - b).amax({0, 1}, true); }, one_kernel);
  check(
      [&](auto& a, auto& b) {
        return (rms_by_hand(a, row) * b).norm(2, {0, 1});
      },
      {1, dut.bytes(2, shape) + of_row, of_row});
  // Sums over some of the dimensions, of values that repeat along some of them, and of operators
  // that go through one matrix at a time, end a chain.
  check([](auto& a, auto& b) { return (a + b).sum(0); },
        {2, dut.bytes(3, shape), dut.bytes(1, shape) + 25 * of_row});
  const Tensor some = dut.input(4, {25, 1});
  check(
      [&](auto& a, auto&) {
        return (a * some).sum({0, 1});
      },
      {2, dut.bytes(2, shape) + dut.bytes(40, {25}), dut.bytes(1, shape) + of_row});
  check(
      [&](auto& a, auto&) {
        return rms_norm(a, {kColumns}, row).sum({0, 1});
      },
      {2, dut.bytes(2, shape) + of_row, dut.bytes(1, shape) + of_row});
}

TEST_CASE("gradients of vectors are summed together by the kernel that computes what they sum",
          "[compile]") {
  Counted dut;
  const Tensor x = dut.input(1).requires_grad_();
  const Tensor scale = dut.input(2, {kColumns}).requires_grad_();
  const Tensor shift = dut.input(3, {kColumns}).requires_grad_();
  const Tensor dy = dut.input(4);
  const auto affine = [](const Tensor& of, const Tensor& a, const Tensor& b) { return of * a + b; };
  const auto gradients = [&] {
    std::vector<Floats> all;
    for (const Tensor& leaf : {x, scale, shift}) {
      all.push_back(leaf.grad().to_vector());
      Tensor(leaf).zero_grad();
    }
    return all;
  };
  const Tensor eager = affine(x, scale, shift);
  CHECK(dut.of([&] { eager.backward(dy); }).kernels == 4);
  const std::vector<Floats> expected = gradients();
  const Tensor compiled = compile(affine)(x, scale, shift);
  // dy scale; the sums of dy x and of dy.
  const Bytes of_row = dut.bytes(1, {kColumns});
  CHECK(dut.of([&] { compiled.backward(dy); }) ==
        Work{2, dut.bytes(3) + of_row, dut.bytes(1) + 2 * of_row});
  CHECK(gradients() == expected);
}

TEST_CASE("a leaf whose gradient is waited for, as by DDP, has it as soon as without compile()",
          "[compile]") {
  Counted dut;
  const Tensor x = dut.input(1);
  const Tensor first = dut.input(2, {kColumns}).requires_grad_();
  const Tensor last = dut.input(3, {kColumns}).requires_grad_();
  const Tensor w = dut.input(4, {kColumns, kColumns});
  bool is_before_first = false;
  last.register_post_accumulate_grad_hook(
      [&](const Tensor&) { is_before_first = !first.grad().defined(); });
  const auto of = [&](const Tensor& y) { return silu(matmul(silu(y + first), w) + last); };
  for (const bool is_compiled : {false, true}) {
    Tensor(first).zero_grad();
    Tensor(last).zero_grad();
    is_before_first = false;
    (is_compiled ? compile(of)(x) : of(x)).sum().backward();
    CHECK(is_before_first);
  }
}

TEST_CASE("rows of a small table are looked up by the kernel that uses them", "[compile]") {
  Counted dut;
  const Tensor ids = (dut.torch.arange(kRows) * 7).view({2, 8}).contiguous();
  const Tensor place = dut.input(2, {8, kColumns});
  const auto first = [&](const Tensor& table) {
    return rms_norm(nn::functional::embedding(ids, table) + place, {kColumns}) * 2;
  };
  const auto work = [&](std::int64_t table_rows) {
    const Tensor table = dut.input(1, {table_rows, kColumns}).requires_grad_();
    Tensor compiled;
    const Work done = dut.of([&] { compiled = compile(first)(table.detach()); });
    const Tensor eager = first(table);
    CHECK(compiled.to_vector() == eager.to_vector());
    eager.sum().backward();
    const Floats gradient = table.grad().to_vector();
    Tensor(table).zero_grad();
    compile(first)(table).sum().backward();
    CHECK(table.grad().to_vector() == gradient);
    return done;
  };
  // The places are loaded for each of two sequences.
  CHECK(work(256) == Work{1,
                          kRows * 8 + dut.bytes(1, {256, kColumns}) + dut.bytes(2, {8, kColumns}),
                          dut.bytes(1)});
  CHECK(work(257).kernels == 2);  // ones and zeros for each row would take more than four rows
}

TEST_CASE("rows that are too long for a compiled kernel end a chain", "[compile]") {
  Counted dut;
  // 2 MiB of scratch: 4,096 elements of f32 are 1/128 of it.
  for (const auto& [columns, kernels] : {std::pair(4096, 1), std::pair(4097, 3)}) {
    const Tensor x = dut.input(1, {2, columns});
    const auto of = [](const Tensor& each) { return softmax(each * 2, -1) * 3; };
    Tensor y;
    CHECK(dut.of([&] { y = compile(of)(x); }).kernels == static_cast<std::size_t>(kernels));
    CHECK(y.to_vector() == of(x).to_vector());
    const auto sums = [](const Tensor& each) { return (each * 2).sum(-1, true) * 3; };
    CHECK(dut.of([&] { y = compile(sums)(x); }).kernels == static_cast<std::size_t>(kernels));
    CHECK(y.to_vector() == sums(x).to_vector());
  }
}

}  // namespace
}  // namespace kernbench::test::compiled
