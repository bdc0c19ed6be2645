// Views whose elements lie apart in memory: a table of them, each compared with a list of the
// positions that its elements have in the whole.

#include "runtime/distributed/local_backend.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::strided_view_test {
namespace {

struct ViewUnderTest {
  std::string name;
  Shape of;
  std::function<Tensor(const Tensor&)> make;
  Shape shape;
  // The position in the whole of an element of the view.
  std::function<std::int64_t(const std::vector<std::int64_t>& index)> position;
  bool repeats = false;
};

using Index = std::vector<std::int64_t>;

std::vector<ViewUnderTest> views() {
  return {{"t",
           {4, 6},
           [](const Tensor& x) { return x.t(); },
           {6, 4},
           [](const Index& i) { return i[1] * 6 + i[0]; }},
          {"transpose",
           {2, 3, 4},
           [](const Tensor& x) { return x.transpose(1, -1); },
           {2, 4, 3},
           [](const Index& i) { return i[0] * 12 + i[2] * 4 + i[1]; }},
          {"permute",
           {2, 3, 4},
           [](const Tensor& x) {
             return x.permute({2, 0, 1});
           },
           {4, 2, 3},
           [](const Index& i) { return i[1] * 12 + i[2] * 4 + i[0]; }},
          {"columns",
           {4, 6},
           [](const Tensor& x) { return x.narrow(1, 2, 3); },
           {4, 3},
           [](const Index& i) { return i[0] * 6 + i[1] + 2; }},
          {"of the middle",
           {2, 3, 4},
           [](const Tensor& x) { return x.narrow(1, 1, 2); },
           {2, 2, 4},
           [](const Index& i) { return i[0] * 12 + (i[1] + 1) * 4 + i[2]; }},
          {"select",
           {4, 6},
           [](const Tensor& x) { return x.select(1, -2); },
           {4},
           [](const Index& i) { return i[0] * 6 + 4; }},
          {"steps",
           {4, 6},
           [](const Tensor& x) { return x.slice(1, 1, -1, 2); },
           {4, 2},
           [](const Index& i) { return i[0] * 6 + 1 + 2 * i[1]; }},
          {"steps of rows",
           {5, 2},
           [](const Tensor& x) { return x.slice(0, 0, 9, 3); },
           {2, 2},
           [](const Index& i) { return i[0] * 6 + i[1]; }},
          {"a view of a view",
           {4, 6},
           [](const Tensor& x) { return x.t().narrow(0, 1, 2).t()[1]; },
           {2},
           [](const Index& i) { return 6 + 1 + i[0]; }},
          {"unsqueeze",
           {4, 6},
           [](const Tensor& x) { return x.t().unsqueeze(1); },
           {6, 1, 4},
           [](const Index& i) { return i[2] * 6 + i[0]; }},
          {"expand",
           {3, 1},
           [](const Tensor& x) {
             return x.expand({2, -1, 4});
           },
           {2, 3, 4},
           [](const Index& i) { return i[1]; },
           true}};
}

// Calls visit(index, number) for each element, row by row.
template <class Visit>
void for_each_index(const Shape& shape, Visit visit) {
  Index index(shape.rank(), 0);
  for (std::int64_t number = 0; number < shape.numel(); ++number) {
    visit(index, static_cast<std::size_t>(number));
    for (std::size_t d = shape.rank(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

Floats taken(const Floats& whole, const ViewUnderTest& view) {
  Floats elements;
  for_each_index(view.shape, [&](const Index& index, std::size_t) {
    elements.push_back(whole[static_cast<std::size_t>(view.position(index))]);
  });
  return elements;
}

// The placements that a view can have.
std::vector<DPPolicy> placements() {
  return {DPPolicy::on_one_pe(), DPPolicy{}, on_pes(kPartial), on_pes(kRow), on_pes(kColumn)};
}

// Calls test(dut, x, y) with a whole and a view of it, for each view and each placement that it
// can have; the others must be refused.
template <class Test>
void for_each_view(DType dtype, Test test) {
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = GENERATE(2048, 1 << 21);
  OperatorsUnderTest dut(topology);
  int made = 0;
  for (const ViewUnderTest& view : views()) {
    for (const DPPolicy& dp : placements()) {
      CAPTURE(view.name, to_string(dp), name_of(dtype));
      const Tensor x = dut.tensor(view.of, small_integers(view.of.numel(), 1), dp, dtype);
      Tensor y;
      try {
        y = view.make(x);
      } catch (const DeviceError& refused) {
        CHECK((dp == on_pes(kRow) || dp == on_pes(kColumn)));
        CHECK(refused.code() == "KB-F003");
        continue;
      }
      ++made;
      REQUIRE(y.shape() == view.shape);
      test(dut, view, x, y);
    }
  }
  CHECK(made >= 40);
}

TEST_CASE("views of elements that lie apart are read as they are", "[strided]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  for_each_view(dtype, [](auto&, const ViewUnderTest& view, const Tensor& x, const Tensor& y) {
    const Floats expected = taken(x.to_vector(), view);
    CHECK(y.is_alias_of(x));
    CHECK(y.to_vector() == expected);
    CHECK(y.contiguous().is_contiguous());
    CHECK(y.contiguous().to_vector() == expected);
    CHECK(y.clone().to_vector() == expected);
    CHECK((y * 2).to_vector() == (y.contiguous() * 2).to_vector());
    const bool is_cut = y.dp() != on_pes(kPartial) && y.dp().num_pes == 2;
    if (!is_cut) CHECK(y.reshape({-1}).to_vector() == expected);
  });
}

TEST_CASE("squeeze() and view() of what lies apart are views, or refused", "[strided]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3, 4}, small_integers(24, 1));
  const auto writes_through = [&](const Tensor& y, const Shape& shape) {
    CHECK(y.shape() == shape);
    CHECK(y.is_alias_of(x));
    const Floats expected = y.to_vector();
    y.add_(1);
    Floats written = y.to_vector();
    for (float& element : written) element -= 1;
    CHECK(written == expected);
  };
  writes_through(x.narrow(2, 2, 1).squeeze(), {2, 3});
  writes_through(x.narrow(1, 2, 1).narrow(2, 1, 1).squeeze(), {2});
  writes_through(x.narrow(2, 2, 1).view(-1), {6});
  writes_through(x.narrow(2, 0, 2).view({6, 2}), {6, 2});
  writes_through(x.narrow(2, 0, 2).view({1, 3, 2, -1}), {1, 3, 2, 2});
  writes_through(x.transpose(0, 1).view({3, 2, 2, 2}), {3, 2, 2, 2});
  const Tensor column = x.narrow(2, 2, 1).view(-1);
  column.fill_(7);
  CHECK(x.select(2, 2).to_vector() == Floats(6, 7));
  const std::string refused =
      "view size is not compatible with input tensor's size and stride (at least one dimension "
      "spans across two contiguous subspaces). Use .reshape(...) instead.";
  const Tensor narrow = x.narrow(2, 0, 2);
  CHECK_THAT(error([&] { narrow.view(-1); }), Says("KB-F001", refused));
  CHECK_THAT(error([&] { x.transpose(0, 1).view({6, 4}); }), Says("KB-F001", refused));
  CHECK_THAT(error([&] { narrow.view({5, 2}); }), Says("KB-F001", "invalid for input of size 12"));
  const Tensor leaf = dut.tensor({2, 3, 4}, small_integers(24, 1)).requires_grad_();
  (leaf.narrow(2, 2, 1).view(-1) * dut.tensor({6}, {1, 2, 3, 4, 5, 6})).sum().backward();
  CHECK(leaf.grad().select(2, 2).to_vector() == Floats{1, 2, 3, 4, 5, 6});
  CHECK(leaf.grad().sum().item() == 21);
}

TEST_CASE("views cost no time until their elements are needed in a row", "[strided]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({4, 6}, small_integers(24, 1));
  const Time before = dut.torch.engine().now();
  const Tensor y = x.t().narrow(0, 1, 3).slice(1, 0, 4, 2);
  CHECK(dut.torch.engine().now() == before);
  CHECK_FALSE(y.is_contiguous());
  CHECK(y.at({2, 1}) == x.at({2, 3}));
  CHECK(x.narrow(0, 1, 2).is_contiguous());
  CHECK(dut.tensor({1, 5}, small_integers(5, 1)).t().is_contiguous());
  CHECK_FALSE(y.contiguous().is_alias_of(x));
}

TEST_CASE("what is written into a view is written into the whole, and nothing else", "[strided]") {
  const DType dtype = GENERATE(DType::f16, DType::f32);
  for_each_view(dtype, [](OperatorsUnderTest& dut, const ViewUnderTest& view, const Tensor& x,
                          const Tensor& y) {
    if (view.repeats) {
      const std::string text = error([&] { (void)y.fill_(0); });
      CHECK(text.find("more than one element of the written-to tensor") != std::string::npos);
      return;
    }
    Floats whole = x.to_vector();
    const auto expect = [&](const std::function<float(float, std::size_t)>& written) {
      for_each_index(view.shape, [&](const Index& index, std::size_t number) {
        float& element = whole[static_cast<std::size_t>(view.position(index))];
        element = written(element, number);
      });
      CHECK(x.to_vector() == whole);
      CHECK(y.to_vector() == taken(whole, view));
    };
    y.mul_(2);
    expect([](float old, std::size_t) { return 2 * old; });
    Tensor(y).copy_(RuntimeContext::tensor(small_integers(y.numel(), 5), y.shape()));
    const Floats copied = small_integers(y.numel(), 5);
    expect([&](float, std::size_t number) { return copied[number]; });
    const Tensor other = dut.tensor(y.shape(), small_integers(y.numel(), 3), y.dp(), y.dtype());
    Tensor(y).copy_(other);
    const Floats of_other = other.to_vector();
    expect([&](float, std::size_t number) { return of_other[number]; });
    y.sub_(other);
    expect([](float, std::size_t) { return 0.0F; });
    x.mul_(3);
    for (float& element : whole) element *= 3;
    CHECK(y.to_vector() == taken(whole, view));
    if (is_partial(y.dp())) return;
    y.fill_(7);
    expect([](float, std::size_t) { return 7.0F; });
  });
}

TEST_CASE("gradients flow to where a view's elements lie", "[strided]") {
  for_each_view(DType::f32, [](OperatorsUnderTest& dut, const ViewUnderTest& view,
                               const Tensor& whole, const Tensor&) {
    Tensor x = whole.clone();
    x.requires_grad_();
    const Tensor y = view.make(x);
    const Floats dy = small_integers(y.numel(), 2);
    y.backward(dut.tensor(y.shape(), dy, gradient_policy(y.dp())));
    Floats expected(static_cast<std::size_t>(x.numel()), 0);
    for_each_index(view.shape, [&](const Index& index, std::size_t number) {
      expected[static_cast<std::size_t>(view.position(index))] += dy[number];
    });
    CHECK(x.grad().to_vector() == expected);
    CHECK(x.grad().is_contiguous());
  });
}

TEST_CASE("gradients flow through views of which holders have few elements or none", "[strided]") {
  for (const Shape& shape : {Shape{1, 3}, Shape{7, 33}, Shape{300, 3}, Shape{129, 2}}) {
    for (const DPPolicy& dp : {on_pes(kRow), on_cubes(kRow), on_all(kRow, kRow)}) {
      INFO(to_string(shape) << " over " << static_cast<int>(dp.cube) << " "
                            << static_cast<int>(dp.pe));
      OperatorsUnderTest dut;
      const Tensor x = dut.leaf(shape, 1, dp);
      x.t().sum(-1, true).sum().backward();
      CHECK(x.grad().to_vector() == Floats(static_cast<std::size_t>(shape.numel()), 1));
    }
  }
}

TEST_CASE("a view that repeats elements is copied where each holder has one row", "[strided]") {
  OperatorsUnderTest dut;
  const Floats rows = small_integers(6, 1);
  Floats expected;
  for (const float row : rows) expected.insert(expected.end(), 3, row);
  const Tensor view = dut.tensor({6, 1}, rows, on_all(kRow, kRow)).expand({6, 3}).view({6, 1, 3});
  CHECK(view.contiguous().to_vector() == expected);
}

TEST_CASE("gradients flow through what is written into a view", "[strided]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({3, 4}, 1);
  const Tensor w = dut.leaf({2, 3}, 2);
  const Tensor z = 2 * x;
  z.t().narrow(0, 1, 2).mul_(w);  // columns 1 and 2
  z.select(1, 3).zero_();
  (z * z).sum().backward();
  const Floats of_x = x.to_vector();
  const Floats of_w = w.to_vector();
  Floats dx(12, 0);
  Floats dw(6, 0);
  for (std::size_t row = 0; row < 3; ++row) {
    dx[row * 4] = 8 * of_x[row * 4];
    for (std::size_t column : {1U, 2U}) {
      const float a = of_x[row * 4 + column];
      const float b = of_w[(column - 1) * 3 + row];
      dx[row * 4 + column] = 8 * a * b * b;
      dw[(column - 1) * 3 + row] = 8 * a * a * b;
    }
  }
  CHECK(x.grad().to_vector() == dx);
  CHECK(w.grad().to_vector() == dw);
}

TEST_CASE("operators take views, and their gradients come back through them", "[strided]") {
  OperatorsUnderTest dut;
  const auto check = [&](const std::function<Tensor(const Tensor&)>& f) {
    const Tensor x = dut.leaf({4, 4}, 1);
    Tensor same = dut.tensor({4, 4}, x.t().contiguous().to_vector()).requires_grad_();
    const Tensor of_view = f(x.t());
    const Tensor of_dense = f(same);
    CHECK(of_view.to_vector() == of_dense.to_vector());
    CHECK(of_view.is_contiguous());
    of_view.sum().backward();
    of_dense.sum().backward();
    CHECK(x.grad().t().to_vector() == same.grad().to_vector());
  };
  const Tensor w = dut.tensor({4, 4}, sixteenths(16, 1));
  check([&](const Tensor& x) { return x * w + x.exp(); });
  check([&](const Tensor& x) { return matmul(x, w) + matmul(w, x); });
  check([&](const Tensor& x) { return x.softmax(0) * w + x.softmax(1) * w; });
  check([&](const Tensor& x) { return x.log_softmax(0) * w; });
  check([&](const Tensor& x) { return x.sum({0}) + x.amax({1}) + x.cumsum(0); });
  check([&](const Tensor& x) { return nn::functional::layer_norm(x, {4}, w[0], w[1]) * w; });
  check([&](const Tensor& x) { return cat({x, x}, 0) + stack({x, x}).reshape({8, 4}); });
  check([&](const Tensor& x) { return where(x > 0, x, 0.0) + x.to(DType::f16).to(DType::f32); });
  check([&](const Tensor& x) { return addmm(x[0], x, w); });
}

TEST_CASE("what needs elements in a row refuses views that have none, with the words",
          "[strided]") {
  distributed::register_local_backend();
  OperatorsUnderTest dut;
  dut.torch.distributed.init_process_group("local", {.world_size = 1, .rank = 0});
  const Tensor view = dut.tensor({4, 6}, small_integers(24, 1)).t();
  CHECK_THAT(error_of<CollectiveError>([&] { dut.torch.distributed.all_reduce(view); }),
             Says("KB-C013", "all_reduce: Tensors must be contiguous", "contiguous()"));
  CHECK_THAT(error([&] {
               dut.torch.launch(
                   "own", [](tl::Context&, tl::Pointer) {}, view);
             }),
             Says("KB-F005", "launch of 'own': Tensors must be contiguous"));
}

TEST_CASE("views are refused in torch's words", "[strided]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, small_integers(6, 1));
  CHECK_THAT(error([&] { (void)x.permute({0}); }),
             Says("KB-F001", "input.dim() = 2 is not equal to len(dims) = 1"));
  CHECK_THAT(error([&] { (void)x.permute({0, 0}); }), Says("KB-F001", "duplicate dims"));
  CHECK_THAT(error([&] { (void)x.expand({3}); }), Says("KB-F001", "the number of sizes provided"));
  CHECK_THAT(error([&] {
               (void)x.expand({2, 4});
             }),
             Says("KB-F001",
                  "The expanded size of the tensor (4) must match the existing size (3) "
                  "at non-singleton dimension 1"));
  CHECK_THAT(error([&] { (void)x.slice(0, 0, 2, 0); }),
             Says("KB-F001", "slice step must be positive"));
  CHECK_THAT(error([&] { (void)x.select(1, 3); }),
             Says("KB-F001", "index 3 out of range for tensor of size [2, 3] at dimension 1"));
  CHECK_THAT(error([&] { (void)x.chunk(0); }),
             Says("KB-F001", "chunk expects `chunks` to be greater than 0, got: 0"));
}

TEST_CASE("chunk, unbind and stack take apart and put together", "[strided]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 6}, 1);
  for (const int dim : {0, 1}) {
    CHECK(stack(x.unbind(dim), dim).to_vector() == x.to_vector());
    CHECK(cat(x.chunk(3, dim), dim).to_vector() == x.to_vector());
  }
  CHECK(x.chunk(4, 1).size() == 3);
  const Tensor pairs = stack({x, 2 * x}, -1);
  CHECK(pairs.shape() == Shape{4, 6, 2});
  pairs.backward(dut.tensor({4, 6, 2}, Floats(48, 1)));
  CHECK(x.grad().to_vector() == Floats(24, 3));
}

}  // namespace
}  // namespace kernbench::test::strided_view_test
