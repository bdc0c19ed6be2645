#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::cat_test {
namespace {

// The elements of x, a tensor of three dimensions, whose index along `dim` is in [start, end).
Floats narrowed(const Floats& x, const Shape& shape, std::size_t dim, std::int64_t start,
                std::int64_t end) {
  Floats result;
  std::int64_t inner = 1;
  for (std::size_t i = dim + 1; i < shape.rank(); ++i) inner *= shape[i];
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t index = static_cast<std::int64_t>(i) / inner % shape[dim];
    if (index >= start && index < end) result.push_back(x[i]);
  }
  return result;
}

TEST_CASE("narrow takes a stretch of a dimension, and its gradient is 0 elsewhere", "[cat]") {
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = GENERATE(2048, 1 << 21);
  OperatorsUnderTest dut(topology);
  const Shape shape{4, 5, 6};
  for (int dim = 0; dim < 3; ++dim) {
    for (const auto& [start, length] : {std::pair{0, 2}, {1, 3}, {3, 1}, {2, 0}, {0, 4}}) {
      const auto udim = static_cast<std::size_t>(dim);
      const Tensor x = dut.leaf(shape, 1);
      const Tensor y = narrow(x, dim - 3, start, length);
      CHECK(y.to_vector() == narrowed(x.to_vector(), shape, udim, start, start + length));
      const Floats dy = small_integers(y.numel(), 2);
      y.backward(dut.tensor(y.shape(), dy));
      const Floats dx = x.grad().to_vector();
      CHECK(narrowed(dx, shape, udim, start, start + length) == dy);
      float outside = 0;
      for (const float element : dx) outside += std::abs(element);
      for (const float element : dy) outside -= std::abs(element);
      CHECK(outside == 0);
    }
  }
}

TEST_CASE("split and cat undo each other, in values and in gradients", "[cat]") {
  OperatorsUnderTest dut;
  const int dim = GENERATE(0, 1, 2);
  const Shard pe = GENERATE(kR, kRow, kColumn, kPartial);
  const bool is_cut = (pe == kRow && dim == 0) || (pe == kColumn && dim == 2);
  if (is_cut) return;
  const Tensor x = dut.leaf({4, 5, 6}, 1, on_pes(pe));
  const std::vector<Tensor> parts = split(x, 2, dim);
  CHECK(parts.size() == (dim == 1 ? 3 : dim == 0 ? 2 : 3));
  const Tensor y = cat(parts, dim);
  CHECK(y.dp() == on_pes(pe));
  CHECK(y.to_vector() == x.to_vector());
  const Floats dy = small_integers(120, 2);
  y.backward(dut.tensor({4, 5, 6}, dy, gradient_policy(on_pes(pe))));
  CHECK(x.grad().to_vector() == dy);
}

// How many kernels `action` launches.
template <class Action>
std::size_t kernels_of(OperatorsUnderTest& dut, const Action& action) {
  const std::size_t before = dut.torch.engine().results().size();
  action();
  return dut.torch.engine().results().size() - before;
}

TEST_CASE("the gradients of all parts are put together by one kernel, as cat does", "[cat]") {
  OperatorsUnderTest dut;
  const auto time_of = [&](const auto& action) {
    const Time begin = dut.torch.engine().now();
    action();
    return dut.torch.engine().now() - begin;
  };
  const int dim = GENERATE(0, 1);
  const Tensor x = dut.leaf({30, 60}, 1);
  const Tensor dy = dut.tensor({30, 60}, small_integers(1800, 2));
  const std::vector<Tensor> parts = split(x, 10, dim);
  std::vector<Tensor> doubled;
  for (const Tensor& part : parts) doubled.push_back(part + part);
  Tensor y;
  const Time of_cat = time_of([&] { y = cat(doubled, dim); });
  // The gradients of parts that follow each other in memory are views.
  const std::size_t narrows = dim == 0 ? 0 : parts.size();
  CHECK(kernels_of(dut, [&] { y.backward(dy, true); }) == narrows + parts.size() + 1);
  Floats expected = small_integers(1800, 2);
  for (float& element : expected) element *= 2;
  CHECK(x.grad().to_vector() == expected);

  const Tensor z = dut.leaf({30, 60}, 1);
  const Tensor same = cat(split(z, 10, dim), dim);
  const Time of_narrows = time_of([&] {
    for (const Tensor& part : split(x.detach(), 10, dim)) part.contiguous();
  });
  CHECK(time_of([&] { same.backward(dy); }) == of_narrows + of_cat);
  CHECK(z.grad().to_vector() == dy.to_vector());
}

TEST_CASE("gradients of parts that overlap, or lie otherwise, add up", "[cat]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 6}, 1);
  const Tensor a = narrow(x, 1, 0, 4);
  const Tensor b = narrow(x, 1, 2, 4);
  const Tensor c = narrow(x, 0, 1, 2);
  const Tensor d = narrow(x, 1, 5, 1);
  const Tensor loss = sum(a) + sum(2 * b) + sum(4 * c) + sum(8 * d) + sum(16 * x);
  loss.backward();
  Floats expected;
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 6; ++column) {
      const int of_columns = (column < 4 ? 1 : 0) + (column >= 2 ? 2 : 0) + (column == 5 ? 8 : 0);
      const int of_rows = row == 1 || row == 2 ? 4 : 0;
      expected.push_back(static_cast<float>(16 + of_columns + of_rows));
    }
  }
  CHECK(x.grad().to_vector() == expected);
}

TEST_CASE("parts of a result pass gradients on, and unused ones none", "[cat]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.leaf({2, 6}, 1);
  const std::vector<Tensor> parts = split(3 * w, 2, 1);
  const Tensor y = sum(parts[0]) + sum(parts[2] + parts[2]);
  y.backward({}, true);
  CHECK(w.grad().to_vector() == Floats{3, 3, 0, 0, 6, 6, 3, 3, 0, 0, 6, 6});
  y.backward();
  CHECK(w.grad().to_vector() == Floats{6, 6, 0, 0, 12, 12, 6, 6, 0, 0, 12, 12});
  CHECK_THROWS_MATCHES(y.backward(), CollectiveError, Says("KB-A004"));
}

TEST_CASE("a part's gradient that is a sum of holders needs others that are, too", "[cat]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 4}, 1, on_pes(kR));
  const Tensor w = dut.leaf({2, 4}, 2, on_pes(kColumn));
  const std::vector<Tensor> parts = split(x, 2, 1);
  sum(matmul(parts[0], w) + matmul(parts[1], w)).backward();
  CHECK(x.grad().dp() == on_pes(kPartial));
  const Floats of_w = w.to_vector();
  const float first = of_w[0] + of_w[1] + of_w[2] + of_w[3];
  const float second = of_w[4] + of_w[5] + of_w[6] + of_w[7];
  CHECK(x.grad().to_vector() == Floats{first, second, first, second, first, second, first, second});
  const std::vector<Tensor> again = split(x, 2, 1);
  matmul(again[0], w).backward(dut.tensor({2, 4}, Floats(8, 1), on_pes(kColumn)));
  const Tensor mixed = sum(relu(again[1]));
  CHECK(x.grad().dp() == on_pes(kPartial));
  CHECK_THAT(error_of<DeviceError>([&] { mixed.backward(); }),
             Says("KB-F003", "all_reduce it first"));
}

TEST_CASE("an operator of one's own may have a part of its input as its result", "[cat]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 2}, 1, on_pes(kColumn));
  const auto part = [&](const Tensor& output, const autograd::Part& of) {
    return autograd::record_part("rows", output, x, of);
  };
  const Tensor rows = dut.tensor({2, 2}, Floats(4), on_pes(kColumn));
  sum(part(rows, {0, 1})).backward();
  CHECK(x.grad().to_vector() == Floats{0, 0, 1, 1, 1, 1, 0, 0});
  const auto error = [&](const Tensor& output, const autograd::Part& of) {
    return error_of<DeviceError>([&] { part(output, of); });
  };
  CHECK_THAT(error(rows, {0, 3}),
             Says("KB-F001", "rows", "[2, 2]", "[4, 2]", "from 3", "dimension 0"));
  CHECK_THAT(error(rows, {1, 0}), Says("KB-F001", "rows"));
  CHECK_THAT(error(rows, {2, 0}), Says("KB-F001", "rows"));
  CHECK_THAT(error(dut.leaf({2, 2}, 1, on_pes(kR)), {0, 0}), Says("KB-F003", "rows"));
  CHECK_THAT(error(dut.leaf({2, 2}, 1, on_pes(kColumn), DType::f16), {0, 0}), Says("KB-F002"));
}

TEST_CASE("cat computes gradients of those alone that need one", "[cat]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 3}, 1);
  const Tensor y = cat({x, dut.tensor({1, 3}, {1, 2, 3})});
  const Tensor dy = dut.tensor({3, 3}, small_integers(9, 1));
  CHECK(kernels_of(dut, [&] { y.backward(dy); }) == 1);
  const Floats of_dy = dy.to_vector();
  CHECK(x.grad().to_vector() == Floats(of_dy.begin(), of_dy.begin() + 6));
}

TEST_CASE("split by sizes gives tensors of these sizes", "[cat]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({6}, {1, 2, 3, 4, 5, 6});
  const std::vector<Tensor> parts = split(x, {1, 0, 5});
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].to_vector() == Floats{1});
  CHECK(parts[1].numel() == 0);
  CHECK(parts[2].to_vector() == Floats{2, 3, 4, 5, 6});
  CHECK(cat({parts[2], parts[1], parts[0]}).to_vector() == Floats{2, 3, 4, 5, 6, 1});
}

TEST_CASE("cat and split refuse what does not fit", "[cat]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 6}, 1, on_pes(kR));
  CHECK_THAT(error([&] { cat({}); }), Says("KB-F001", "expected a non-empty list of Tensors"));
  CHECK_THAT(error([&] {
               cat({x, dut.leaf({4, 5}, 1, on_pes(kR))});
             }),
             Says("KB-F001",
                  "Sizes of tensors must match except in dimension 0. Expected size 6 but got "
                  "size 5 for tensor number 1 in the list"));
  CHECK_THAT(error([&] { cat({x, dut.leaf({4, 6}, 1, on_pes(kRow))}, 1); }), Says("KB-F003"));
  const Tensor cut = dut.leaf({4, 6}, 1, on_pes(kColumn));
  CHECK_THAT(error([&] { cat({cut, cut}, 1); }), Says("KB-F003", "PEs would have to exchange"));
  CHECK_THAT(error([&] { narrow(cut, 1, 0, 2); }), Says("KB-F003", "narrow"));
  CHECK_THAT(error([&] { narrow(x, 1, 4, 3); }),
             Says("KB-F001", "start (4) + length (3) exceeds dimension size (6)"));
  CHECK_THAT(error([&] { split(x, 0, 1); }), Says("KB-F001", "split"));
  CHECK_THAT(error([&] {
               split(x, {1, 2}, 1);
             }),
             Says("KB-F001",
                  "split_with_sizes expects split_sizes to sum exactly to 6 (input tensor's size "
                  "at dimension 1), but got split_sizes=[1, 2]"));
}

TEST_CASE("heads are split off columns, and merged again, also if wider than scratch", "[heads]") {
  const std::int64_t width = GENERATE(2, 600);
  Topology topology = six_pe_topology();
  if (width > 2) topology.pe.tcm.capacity = 2048;  // 512 numbers of f32
  OperatorsUnderTest dut(topology);
  const auto [flat, heads] = GENERATE(std::pair{kR, kR}, std::pair{kColumn, kRow});
  const Tensor x = dut.leaf({3, 4 * width}, 1, on_pes(flat));
  const Tensor y = split_heads(x, 4);
  CHECK(y.shape() == Shape{4, 3, width});
  CHECK(y.dp() == on_pes(heads));
  const Floats of_x = x.to_vector();
  Floats expected;
  for (std::int64_t head = 0; head < 4; ++head) {
    for (std::int64_t row = 0; row < 3; ++row) {
      const auto first = of_x.begin() + (row * 4 + head) * width;
      expected.insert(expected.end(), first, first + width);
    }
  }
  CHECK(y.to_vector() == expected);
  const Tensor z = merge_heads(y);
  CHECK(z.dp() == on_pes(flat));
  CHECK(z.to_vector() == of_x);
  const Floats dz = small_integers(x.numel(), 2);
  z.backward(dut.tensor(x.shape(), dz, on_pes(flat)));
  CHECK(x.grad().to_vector() == dz);
}

TEST_CASE("heads that its holders cannot share are refused", "[heads]") {
  OperatorsUnderTest dut;
  CHECK_THAT(error([&] {
               split_heads(dut.leaf({3, 6}, 1, on_pes(kColumn)), 3);
             }),
             Says("KB-F003", "3 heads of 2 cannot be shared evenly"));
  CHECK_THAT(error([&] {
               split_heads(dut.leaf({3, 6}, 1), 4);
             }),
             Says("KB-F001", "split_heads", "[3, 6] with 4 heads"));
  CHECK_THAT(error([&] {
               split_heads(dut.leaf({4, 6}, 1, on_pes(kRow)), 3);
             }),
             Says("KB-F003", "only heads may be shared"));
  CHECK_THAT(error([&] {
               merge_heads(dut.leaf({4, 6, 2}, 1, on_pes(kColumn)));
             }),
             Says("KB-F003", "merge_heads"));
  CHECK_THAT(error([&] { merge_heads(dut.leaf({4, 6}, 1)); }), Says("KB-F001", "merge_heads"));
}

}  // namespace
}  // namespace kernbench::test::cat_test
