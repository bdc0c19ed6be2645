#include <tuple>

#include "runtime/functional/operators.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::matmul_test {
namespace {

// A matrix [rows, columns] of a vector; `at` sees it transposed or not.
struct Matrix {
  const Floats& elements;
  std::int64_t rows;
  std::int64_t columns;
  bool is_transposed = false;

  double at(std::int64_t row, std::int64_t column) const {
    if (is_transposed) std::swap(row, column);
    return elements[static_cast<std::size_t>(row * columns + column)];
  }
};

Floats product(const Matrix& a, const Matrix& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  Floats elements;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += a.at(i, l) * b.at(l, j);
      elements.push_back(static_cast<float>(sum));
    }
  }
  return elements;
}

Shape stored(std::int64_t rows, std::int64_t columns, bool is_transposed) {
  return is_transposed ? Shape{columns, rows} : Shape{rows, columns};
}

// op(a) op(b) and both gradients, against plain loops; exact.
void check_product(OperatorsUnderTest& dut, const sim::GemmSize& size, const MatmulOptions& options,
                   const DPPolicy& dp_a, const DPPolicy& dp_b, DType dtype = DType::f32) {
  const auto [m, n, k] = size;
  const Tensor a = dut.leaf(stored(m, k, options.transpose_a), 1, dp_a, dtype);
  const Tensor b = dut.leaf(stored(k, n, options.transpose_b), 2, dp_b, dtype);
  const Tensor c = matmul(a, b, options);
  REQUIRE(c.shape() == Shape{m, n});
  CHECK(c.dtype() == dtype);
  const Floats of_a = a.to_vector();
  const Floats of_b = b.to_vector();
  const Matrix op_a{of_a, a.shape()[0], a.shape()[1], options.transpose_a};
  const Matrix op_b{of_b, b.shape()[0], b.shape()[1], options.transpose_b};
  CHECK(c.to_vector() == product(op_a, op_b, m, n, k));

  const Floats of_dc = small_integers(m * n, 3);
  c.backward(dut.tensor({m, n}, of_dc, gradient_policy(c.dp()), dtype));
  const Matrix dc{of_dc, m, n};
  const Matrix dc_transposed{of_dc, m, n, true};
  const Matrix a_transposed{of_a, a.shape()[0], a.shape()[1], !options.transpose_a};
  const Matrix b_transposed{of_b, b.shape()[0], b.shape()[1], !options.transpose_b};
  CHECK(a.grad().to_vector() == (options.transpose_a ? product(op_b, dc_transposed, k, m, n)
                                                     : product(dc, b_transposed, m, k, n)));
  CHECK(b.grad().to_vector() == (options.transpose_b ? product(dc_transposed, op_a, n, k, m)
                                                     : product(a_transposed, dc, k, n, m)));
}

TEST_CASE("a product and its gradients are those of plain loops, transposed or not", "[matmul]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = DPPolicy::on_one_pe();
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const sim::GemmSize size :
           {sim::GemmSize{1, 1, 1}, {3, 5, 7}, {33, 65, 31}, {2, 130, 3}}) {
        check_product(dut, size, {transpose_a, transpose_b}, dp, dp);
      }
      check_product(dut, {5, 6, 9}, {transpose_a, transpose_b}, dp, dp, DType::f16);
      check_product(dut, {5, 6, 9}, {transpose_a, transpose_b}, dp, dp, DType::bf16);
    }
  }
}

TEST_CASE("a product of nothing is empty or 0", "[matmul]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = DPPolicy::on_one_pe();
  for (const sim::GemmSize size : {sim::GemmSize{0, 2, 3}, {2, 0, 3}, {2, 3, 0}, {0, 0, 0}}) {
    check_product(dut, size, {}, dp, dp);
  }
}

TEST_CASE("a product larger than scratch is cut in tiles", "[matmul]") {
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = 16 * 1024;
  OperatorsUnderTest dut(topology);
  const bool transpose_a = GENERATE(false, true);
  const bool transpose_b = GENERATE(false, true);
  check_product(dut, {97, 45, 120}, {transpose_a, transpose_b}, DPPolicy::on_one_pe(),
                DPPolicy::on_one_pe());
}

struct Row {
  Shard a;
  Shard b;
  Shard c;
};

TEST_CASE("each PE multiplies its own parts, and the product lies as the table says", "[matmul]") {
  const std::vector<Row> rows = {{kR, kR, kR},
                                 {kR, kColumn, kColumn},
                                 {kRow, kR, kRow},
                                 {kColumn, kRow, kPartial},
                                 {kPartial, kR, kPartial},
                                 {kR, kPartial, kPartial}};
  OperatorsUnderTest dut;
  for (const Row& row : rows) {
    for (const sim::GemmSize size : {sim::GemmSize{6, 12, 18}, {7, 5, 10}, {1, 2, 1}}) {
      INFO(name_of(row.a) << " x " << name_of(row.b));
      const Tensor a = dut.leaf({size.m, size.k}, 1, on_cubes(row.a));
      const Tensor b = dut.leaf({size.k, size.n}, 2, on_cubes(row.b));
      CHECK(matmul(a, b).dp().cube == row.c);
      check_product(dut, size, {}, on_cubes(row.a), on_cubes(row.b));
    }
  }
}

TEST_CASE("a transposed operand is cut along the other dimension of the product", "[matmul]") {
  OperatorsUnderTest dut;
  const sim::GemmSize size{7, 5, 10};
  check_product(dut, size, {.transpose_a = true}, on_pes(kColumn), on_pes(kR));
  check_product(dut, size, {.transpose_b = true}, on_pes(kR), on_pes(kRow));
  check_product(dut, size, {true, false}, on_pes(kRow), on_pes(kRow));
  check_product(dut, size, {false, true}, on_pes(kColumn), on_pes(kColumn));
  check_product(dut, size, {true, true}, on_pes(kRow), on_pes(kColumn));
}

TEST_CASE("cubes and PEs are levels of their own", "[matmul]") {
  OperatorsUnderTest dut;
  const sim::GemmSize size{9, 8, 13};
  const auto c_of = [&](const DPPolicy& a, const DPPolicy& b) {
    check_product(dut, size, {}, a, b);
    return matmul(dut.leaf({9, 13}, 1, a), dut.leaf({13, 8}, 2, b)).dp();
  };
  CHECK(c_of(on_all(kRow, kColumn), on_all(kR, kRow)) == on_all(kRow, kPartial));
  CHECK(c_of(on_all(kR, kRow), on_all(kColumn, kR)) == on_all(kColumn, kRow));
  CHECK(c_of(on_all(kColumn, kColumn), on_all(kRow, kRow)) == on_all(kPartial, kPartial));
  CHECK(c_of(on_all(kRow, kRow), on_all(kR, kR)) == on_all(kRow, kRow));
}

TEST_CASE("a level with one holder counts as replicated", "[matmul]") {
  OperatorsUnderTest dut;
  const DPPolicy row{.cube = kRow, .pe = kPartial, .num_cubes = 1, .num_pes = 1};
  const DPPolicy column{.cube = kColumn, .pe = kRow, .num_cubes = 1, .num_pes = 1};
  check_product(dut, {3, 4, 5}, {}, column, column);
  CHECK(matmul(dut.leaf({3, 4}, 1, row), dut.leaf({4, 5}, 2, row)).dp() == DPPolicy::on_one_pe());
}

// Each of `count` matrices as check_product() has it.
void check_batch(OperatorsUnderTest& dut, std::int64_t count, const sim::GemmSize& size,
                 const MatmulOptions& options, const DPPolicy& dp_a, const DPPolicy& dp_b,
                 const DPPolicy& dp_c) {
  const auto [m, n, k] = size;
  const auto batched = [&](const Shape& shape) { return Shape{count, shape[0], shape[1]}; };
  const Shape shape_a = stored(m, k, options.transpose_a);
  const Shape shape_b = stored(k, n, options.transpose_b);
  const Tensor a = dut.leaf(batched(shape_a), 1, dp_a);
  const Tensor b = dut.leaf(batched(shape_b), 2, dp_b);
  const Tensor c = matmul(a, b, options);
  CHECK(c.dp() == dp_c);
  const Tensor dc = dut.tensor(c.shape(), small_integers(c.numel(), 3), gradient_policy(dp_c));
  c.backward(dc);
  const auto part = [&](const Floats& all, std::int64_t index) {
    const auto length = static_cast<std::ptrdiff_t>(all.size()) / count;
    return Floats(all.begin() + index * length, all.begin() + (index + 1) * length);
  };
  for (std::int64_t i = 0; i < count; ++i) {  // each alone, on one PE
    Tensor one_a = dut.tensor(shape_a, part(a.to_vector(), i));
    Tensor one_b = dut.tensor(shape_b, part(b.to_vector(), i));
    const Tensor one_c = matmul(one_a.requires_grad_(), one_b.requires_grad_(), options);
    one_c.backward(dut.tensor({m, n}, part(dc.to_vector(), i)));
    CHECK(part(c.to_vector(), i) == one_c.to_vector());
    CHECK(part(a.grad().to_vector(), i) == one_a.grad().to_vector());
    CHECK(part(b.grad().to_vector(), i) == one_b.grad().to_vector());
  }
}

TEST_CASE("batches are multiplied one by one, and may be cut", "[matmul]") {
  OperatorsUnderTest dut;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const MatmulOptions options{transpose_a, transpose_b};
      check_batch(dut, 5, {3, 4, 2}, options, on_pes(kRow), on_pes(kRow), on_pes(kRow));
      check_batch(dut, 1, {3, 4, 2}, options, on_pes(kRow), on_pes(kRow), on_pes(kRow));
    }
  }
  check_batch(dut, 3, {3, 5, 2}, {}, on_pes(kR), on_pes(kColumn), on_pes(kColumn));
  check_batch(dut, 3, {3, 5, 7}, {.transpose_b = true}, on_pes(kColumn), on_pes(kColumn),
              on_pes(kPartial));
}

TEST_CASE("rows may have more than one dimension", "[matmul]") {
  OperatorsUnderTest dut;
  const Shard cut = GENERATE(kR, kRow);
  const Tensor x = dut.leaf({5, 2, 3}, 1, on_pes(cut));
  const Tensor w = dut.leaf({3, 4}, 2, on_pes(kR));
  const Tensor y = matmul(x, w);
  CHECK(y.shape() == Shape{5, 2, 4});
  CHECK(y.dp() == on_pes(cut));
  const Tensor flat = dut.tensor({10, 3}, x.to_vector()).requires_grad_();
  const Tensor same_w = dut.leaf({3, 4}, 2);
  const Tensor flat_y = matmul(flat, same_w);
  CHECK(y.to_vector() == flat_y.to_vector());
  const Floats dy = small_integers(40, 3);
  y.backward(dut.tensor({5, 2, 4}, dy, on_pes(cut)));
  flat_y.backward(dut.tensor({10, 4}, dy));
  CHECK(x.grad().shape() == Shape{5, 2, 3});
  CHECK(x.grad().to_vector() == flat.grad().to_vector());
  CHECK(w.grad().to_vector() == same_w.grad().to_vector());
}

TEST_CASE("the gradient of what is replicated is a sum over holders where it must be", "[matmul]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 6}, 1, on_pes(kR));
  const Tensor w = dut.leaf({6, 4}, 2, on_pes(kColumn));
  sum(matmul(x, w)).backward();
  CHECK(x.grad().dp() == on_pes(kPartial));
  CHECK(w.grad().dp() == on_pes(kColumn));
}

TEST_CASE("linear is a product with the transposed weight, and a bias", "[matmul]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 3}, 1);
  const Tensor w = dut.leaf({5, 3}, 2);
  const Tensor b = dut.leaf({5}, 3);
  CHECK(nn::functional::linear(x, w).to_vector() ==
        matmul(x, w, {.transpose_b = true}).to_vector());
  const Tensor y = nn::functional::linear(x, w, b);
  CHECK(y.to_vector() == (matmul(x, w, {.transpose_b = true}) + b).to_vector());
  sum(y).backward();
  CHECK(b.grad().to_vector() == Floats(5, 4));
  CHECK(w.grad().shape() == Shape{5, 3});
}

TEST_CASE("a product is rounded once", "[matmul]") {
  OperatorsUnderTest dut;
  // 2048 + 1 - 2048 is 0 if sums are rounded to f16, where the numbers above 2048 are even.
  const Tensor a = dut.tensor({1, 3}, {2048, 1, -2048}, DPPolicy::on_one_pe(), DType::f16);
  const Tensor b = dut.tensor({3, 1}, {1, 1, 1}, DPPolicy::on_one_pe(), DType::f16);
  CHECK(matmul(a, b).item() == 1);
}

TEST_CASE("a large product takes few commands", "[matmul]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.torch.ones({512, 1024}, {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()});
  const Tensor b = dut.torch.ones({1024, 1024}, {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()});
  const std::size_t before = dut.torch.engine().op_log().size();
  const Tensor c = matmul(a, b);
  CHECK(dut.torch.engine().op_log().size() - before < 1000);
}

TEST_CASE("a transposed view is read where it lies, and not copied", "[matmul]") {
  OperatorsUnderTest dut;
  for (const Shard cut : {kR, kRow}) {
    const Tensor x = dut.leaf({6, 8}, 1, on_pes(kR));
    const Tensor w = dut.leaf({4, 8}, 2, on_pes(cut));
    const Tensor dy = dut.tensor({6, 4}, small_integers(24, 3),
                                 matmul(x.detach(), w.detach(), {.transpose_b = true}).dp());
    // The values, the gradients, and how many kernels computed the values.
    const auto run = [&](const std::function<Tensor()>& product) {
      const std::size_t before = dut.torch.engine().results().size();
      const Tensor y = product();
      const std::size_t kernels = dut.torch.engine().results().size() - before;
      Tensor(x).zero_grad();
      Tensor(w).zero_grad();
      y.backward(dy);
      return std::tuple(y.to_vector(), x.grad().to_vector(), w.grad().to_vector(), kernels);
    };
    const auto by_option = run([&] { return matmul(x, w, {.transpose_b = true}); });
    CHECK(run([&] { return matmul(x, w.t()); }) == by_option);
    CHECK(run([&] { return addmm({}, x, w.transpose(0, 1)); }) == by_option);
    CHECK(matmul(w, x.t()).t().to_vector() == std::get<0>(by_option));
    CHECK(matmul(x.t().contiguous().t(), w.t()).to_vector() == std::get<0>(by_option));
    CHECK(matmul(x, w.t(), {.alpha = 2}).to_vector() == (matmul(x, w.t()) * 2).to_vector());
    const Tensor first = w.narrow(1, 0, 4).contiguous();
    CHECK(matmul(x.narrow(1, 0, 4), first.t()).to_vector() ==
          matmul(x.narrow(1, 0, 4), first, {.transpose_b = true}).to_vector());
  }
}

TEST_CASE("matrices of batches are read where they lie, and not copied", "[matmul]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = GENERATE(on_pes(kR), on_pes(kRow));
  const DType dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const Shape shape{2, 5, 3, 4};  // [batch, sequence, heads, depth]
  const Tensor q = dut.leaf(shape, 1, dp, dtype);
  const Tensor k = dut.leaf(shape, 2, dp, dtype);
  using View = std::function<Tensor(const Tensor&)>;
  struct Views {
    View of_q;
    View of_k;
    bool is_in_place = true;
  };
  const View heads = [](const Tensor& x) { return x.transpose(1, 2); };
  const View turned = [](const Tensor& x) { return x.transpose(-1, -2); };
  const View turned_heads = [](const Tensor& x) { return x.permute({0, 2, 3, 1}); };
  const auto columns = [](int first) {
    return [first](const Tensor& x) { return x.narrow(3, first, 2); };
  };
  const std::vector<Views> rows = {
      {[](const Tensor& x) { return x; }, turned},
      {turned, [](const Tensor& x) { return x; }},
      {heads, turned_heads},
      {turned_heads, heads},
      {columns(1), [&](const Tensor& x) { return turned(columns(0)(x)); }},
      {[](const Tensor& x) {
         return x.narrow(2, 1, 1).expand({2, 5, 2, 4});
       },
       turned, false},
      {[](const Tensor& x) { return x.slice(3, 0, 4, 2); },
       [&](const Tensor& x) { return turned(columns(1)(x)); }, false},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    // The values, the gradients, and how many kernels the product takes.
    const auto run = [&](bool is_copied) {
      const auto factor = [&](const Tensor& of) { return is_copied ? of.clone() : of; };
      const Tensor a = factor(rows[i].of_q(q));
      const Tensor b = factor(rows[i].of_k(k));
      const std::size_t before = dut.torch.engine().results().size();
      const Tensor y = matmul(a, b);
      const std::size_t kernels = dut.torch.engine().results().size() - before;
      Tensor(q).zero_grad();
      Tensor(k).zero_grad();
      y.backward(dut.tensor(y.shape(), small_integers(y.numel(), 3), y.dp(), dtype));
      const Floats values = y.to_vector();
      return std::pair(std::tuple(values, q.grad().to_vector(), k.grad().to_vector()), kernels);
    };
    const auto [in_place, kernels] = run(false);
    CHECK(in_place == run(true).first);
    CHECK((kernels == q.shards().size()) == rows[i].is_in_place);
  }
}

TEST_CASE("rows of a folded product may lie apart", "[matmul]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 3, 8}, 1, on_pes(kR));
  const Tensor w = dut.leaf({4, 5}, 2, on_pes(kR));
  const auto kernels = [&](const Tensor& of) {
    const std::size_t before = dut.torch.engine().results().size();
    CHECK(matmul(of, w).to_vector() == matmul(of.clone(), w).to_vector());
    return (dut.torch.engine().results().size() - before) / x.shards().size();
  };
  CHECK(kernels(x.narrow(2, 2, 4)) == 3);
  CHECK(kernels(x.narrow(2, 2, 4).narrow(1, 1, 2)) == 4);
}

TEST_CASE("what cannot be multiplied is refused with what would be right", "[matmul]") {
  OperatorsUnderTest dut;
  const auto error = [&](const Tensor& a, const Tensor& b, const MatmulOptions& options = {}) {
    return error_of<DeviceError>([&] { matmul(a, b, options); });
  };
  const auto on = [&](const Shape& shape, const DPPolicy& dp, DType dtype = DType::f32) {
    return dut.tensor(shape, Floats(static_cast<std::size_t>(shape.numel()), 1), dp, dtype, "x");
  };
  const DPPolicy one = DPPolicy::on_one_pe();
  CHECK_THAT(
      error(on({2, 3}, one), on({4, 5}, one)),
      Says("KB-F001", "mat1 and mat2 shapes cannot be multiplied", "'x' [2, 3]", "'x' [4, 5]"));
  CHECK_THAT(error(on({2, 3}, one), on({3, 2}, one), {.transpose_a = true}), Says("KB-F001"));
  CHECK_THAT(error(on({}, one), on({3, 2}, one)),
             Says("KB-F001", "need to be at least 1D, but they are 0D and 2D"));
  CHECK_THAT(error(on({2, 2, 3}, one), on({3, 3, 2}, one)), Says("KB-F001"));
  CHECK_THAT(error(on({2, 2, 3}, one), on({2, 3}, one), {.transpose_a = true}), Says("KB-F001"));
  CHECK_THAT(error(on({2, 3}, on_pes(kColumn)), on({3, 4}, on_pes(kR))),
             Says("KB-F003", "'x' [2, 3] f32", "'x' [3, 4] f32", "pe=column_wise",
                  ".pe = kb::Shard::replicate"));
  for (const Row& row : std::vector<Row>{{kR, kRow, {}},
                                         {kRow, kRow, {}},
                                         {kRow, kColumn, {}},
                                         {kColumn, kColumn, {}},
                                         {kPartial, kPartial, {}},
                                         {kPartial, kColumn, {}},
                                         {kRow, kPartial, {}}}) {
    CHECK_THAT(error(on({2, 2}, on_pes(row.a)), on({2, 2}, on_pes(row.b))), Says("KB-F003"));
  }
  const std::string f16_on_one_pe =
      error(dut.tensor({2, 3}, Floats(6, 1), on_pes(kR), DType::f32, "x"),
            dut.tensor({3, 4}, Floats(12, 1), one, DType::f16, "w"));
  CHECK_THAT(f16_on_one_pe, Says("KB-F003", "'x' [2, 3] f32", "'w' [3, 4] f16",
                                 ".dtype = kb::DType::f16", ".num_pes = 2"));
  CHECK_THAT(error(on({2, 3}, one), on({3, 4}, one, DType::f16)),
             Says("KB-F002", "'x' [2, 3] f32", "'x' [3, 4] f16", ".dtype = kb::DType::f16"));
  CHECK_THAT(error(Tensor(), on({3, 4}, one)), Says("KB-M001"));
  CHECK_THAT(error(RuntimeContext::tensor({1}, {1, 1}), on({1, 4}, one)), Says("KB-M019"));
  OperatorsUnderTest other;
  CHECK_THAT(error(on({2, 3}, one), other.leaf({3, 4}, 1)), Says("KB-M013"));
}

}  // namespace
}  // namespace kernbench::test::matmul_test
