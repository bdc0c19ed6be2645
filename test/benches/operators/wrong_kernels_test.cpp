// The checks find kernels that are wrong, and pass those that only look so (ADR-0140).

#include <catch2/catch.hpp>

#include "benches/bench/context_set.h"
#include "benches/bench/row_cells.h"
#include "benches/operators/cases/rms_kernels.h"
#include "benches/operators/correctness.h"
#include "benches/operators/measurement.h"
#include "benches/operators/operator_run.h"
#include "sim_engine/base/error.h"
#include "test/benches/bench_under_test.h"
#include "test/benches/operators/authors_case.h"
#include "test/support/error_text.h"

namespace kernbench::test::wrong_kernels_test {
namespace {

using namespace benches::operators;
using benches::ContextSet;
using benches::PointContext;
using benches::Row;

const Problem kF32{{1, 16, 40}, DType::f32, 0};

std::vector<Row> check(const OperatorCase& operator_case, const Problem& problem = kF32) {
  BenchUnderTest dut({.topology = benches::load_topology("tiny"), .ccl = {}});
  ContextSet contexts(benches::Recording{});
  PointContext point(dut.bench, contexts);
  return check_providers(point, operator_case, problem);
}

// naive() and then kernels that do more.
class Naively : public Provider {
 public:
  Naively(OperatorRun& run, LaunchKernels after_forward, LaunchKernels after_backward)
      : run_(run), naive_(naive().make(run)), after_{after_forward, after_backward} {}

  void forward() override {
    naive_->forward();
    if (after_[0] != nullptr) after_[0](run_);
  }
  void backward() override {
    naive_->backward();
    if (after_[1] != nullptr) after_[1](run_);
  }

 private:
  OperatorRun& run_;
  const std::unique_ptr<Provider> naive_;
  const std::array<LaunchKernels, 2> after_;
};

ProviderInfo naively(LaunchKernels after_forward, LaunchKernels after_backward) {
  return {"mine", "Mine", [=](OperatorRun& run) {
            return std::make_unique<Naively>(run, after_forward, after_backward);
          }};
}

struct CaseOf : AuthorsCase {
  explicit CaseOf(const ProviderInfo& info) { all = {naive(), info}; }
};

// Adds 1e-4 to the first element of the first PE's part: a hundredth of what atol allows.
void add_a_little(tl::Context& tl, const TokenShare& share, tl::Pointer at) {
  if (share.first > 0) return;
  tl.store(at, tl.load(at, {1, 1}, DType::f32) + 1e-4);
}

TEST_CASE("what atol lets pass the bound of the f64 reference does not", "[operators][errors]") {
  CHECK_NOTHROW(check(CaseOf(naively(nullptr, nullptr))));
  const auto add_to_y = [](OperatorRun& run) { run.launch("add", add_a_little, run.output()); };
  CHECK_THROWS_MATCHES(check(CaseOf(naively(add_to_y, nullptr))), Error,
                       Says("KB-N040", "f32 (1, 16, 40): mine fwd", "y0 at [0, 0]", "f64"));
  const auto add_to_dweight = [](OperatorRun& run) {
    run.launch("add", add_a_little, run.gradient("weight"));
  };
  CHECK_THROWS_MATCHES(check(CaseOf(naively(nullptr, add_to_dweight))), Error,
                       Says("KB-N040", "mine bwd", "dweight at [0, 0]", "f64"));
}

TEST_CASE("who writes into an input is named, not who reads it", "[operators][errors]") {
  const auto write_x = [](OperatorRun& run) { run.launch("add", add_a_little, run.input("x")); };
  CHECK_THROWS_MATCHES(check(CaseOf(naively(write_x, nullptr))), Error,
                       Says("KB-O005", "mine", "'x'", "output()", "gradient()", "saved()"));
  const auto write_dy = [](OperatorRun& run) { run.launch("add", add_a_little, run.upstream()); };
  CHECK_THROWS_MATCHES(check(CaseOf(naively(nullptr, write_dy))), Error,
                       Says("KB-O005", "mine", "'dy0'"));
}

// RMSNorm of x + residual in f32, of which only y is returned: a kernel by hand leaves h to
// backward, and r.
struct SumNorm : AuthorsCase {
  SumNorm() {
    inputs = [](const Problem& problem) {
      return std::vector{token_input("x", problem), token_input("residual", problem),
                         parameter("weight", problem, problem.size.dim, 1, 0.25)};
    };
    formula = [](const Inputs& in) {
      return std::vector{rms_graph(in["x"] + in["residual"], in["weight"])};
    };
  }
};

// Row by row.
void sum_norm_forward(tl::Context& tl, const TokenShare& share, tl::Pointer x, tl::Pointer residual,
                      tl::Pointer weight, tl::Pointer h, tl::Pointer r, tl::Pointer y, double eps) {
  const std::int64_t dim = 40;
  const tl::Tensor w = load_weight(tl, weight, dim);
  for (std::int64_t row = 0; row < share.count; ++row) {
    const auto load = [&](const tl::Pointer& from) {
      return tl.load(from + row * dim, {1, dim}, DType::f32);
    };
    const tl::Tensor sum = load(x) + load(residual);
    const tl::Tensor squares = tl.sum(sum * sum, 1, {.keep_dims = true});
    const tl::Tensor factor = tl.rsqrt(squares * (1.0 / static_cast<double>(dim)) + eps);
    tl.store(h + row * dim, sum);
    tl.store(r + row, factor);
    tl.store(y + row * dim, sum * factor * w);
  }
}

void sum_norm_backward(tl::Context& tl, const TokenShare& share, tl::Pointer h, tl::Pointer r,
                       tl::Pointer weight, tl::Pointer dy, tl::Pointer dx, tl::Pointer dweight) {
  const std::int64_t dim = 40;
  const tl::Tensor w = load_weight(tl, weight, dim);
  tl::Tensor dw = tl.zeros({1, dim}, DType::f32);
  for (std::int64_t row = 0; row < share.count; ++row) {
    const tl::Tensor sum = tl.load(h + row * dim, {1, dim}, DType::f32);
    const tl::Tensor d = tl.load(dy + row * dim, {1, dim}, DType::f32);
    const tl::Tensor factor = tl.load(r + row, {1, 1}, DType::f32);
    dw = dw + weight_gradient(tl, sum, d, factor);
    tl.store(dx + row * dim, rms_gradient(tl, sum, d, factor, w));
  }
  tl.store(dweight, dw);
}

template <bool has_eps>
void launch_sum_norm(OperatorRun& run) {
  run.launch("sum_norm", sum_norm_forward, run.input("x"), run.input("residual"),
             run.input("weight"), run.saved("h", run.dim()), run.saved("r"), run.output(),
             has_eps ? kRmsEps : 0.0);
}

void launch_sum_norm_backward(OperatorRun& run) {
  run.launch("sum_norm_backward", sum_norm_backward, run.saved("h", run.dim()), run.saved("r"),
             run.input("weight"), run.upstream(), run.gradient("x"), run.gradient("weight"));
}

TEST_CASE(
    "a kernel that leaves a sum to backward moves less than one that adds again, and no less "
    "than the roofline",
    "[operators]") {
  SumNorm dut;
  dut.all = {naive(), compiled(), fused(launch_sum_norm<true>, launch_sum_norm_backward)};
  CHECK_NOTHROW(check(dut));
  RuntimeContext torch(benches::load_topology("tiny"), {.data = false});
  const Definition definition = define(dut, kF32);
  const Measured backward = measure(torch, definition, dut.all[2])[1];
  const Bytes n = 16 * 40 * 4;
  const Bytes weights = 2 * 40 * 4;
  CHECK(backward.bytes == 3 * n + 16 * 4 + 2 * weights);  // h, dy, dx; r; weight and its gradient
  CHECK(backward.roofline == Time{(3 * n + 2 * weights) * 100'000 / 18'432});
  CHECK(backward.in_kernels >= backward.roofline);
}

TEST_CASE("a kernel without the eps of its definition is refused", "[operators][errors]") {
  SumNorm dut;
  dut.all = {naive(), fused(launch_sum_norm<false>, launch_sum_norm_backward)};
  CHECK_THROWS_MATCHES(check(dut), Error,
                       Says("KB-N040", "f32 (1, 16, 40): fused fwd", "y0 at [3"));
}

TEST_CASE("a definition that has no value for a row of zeros is told so, unless it has none",
          "[operators][errors]") {
  AuthorsCase dut;
  dut.formula = [](const Inputs& in) {
    return std::vector{in["x"] * rsqrt(mean(power(in["x"], 2))) * in["weight"]};
  };
  CHECK_THROWS_MATCHES(check(dut), Error,
                       Says("KB-N041", "f32 (1, 16, 40)", "y0 at [7, 0]", "rsqrt", "eps"));
  dut.inputs = [](const Problem& problem) {
    InputSpec x = token_input("x", problem);
    x.has_small_rows = false;
    return std::vector{x, parameter("weight", problem, problem.size.dim, 1, 0.25)};
  };
  CHECK_NOTHROW(check(dut));
}

// The gradient of w's first column and that of b are one value, sum of dy x: both are stored.
TEST_CASE("a column and a whole input with one gradient each get it", "[operators]") {
  AuthorsCase dut;
  dut.inputs = [](const Problem& problem) {
    return std::vector{token_input("x", problem), parameter("w", problem, 3, 1, 0.25),
                       parameter("b", problem, 1, 1, 0.25)};
  };
  dut.formula = [](const Inputs& in) {
    return std::vector{in["x"] * in.column("w", 0) + in["x"] * in["b"]};
  };
  const Definition definition = define(dut, kF32);
  REQUIRE(definition.gradients.size() == 3);
  REQUIRE(definition.gradients[1].node == definition.gradients[2].node);
  CHECK_NOTHROW(check(dut));
}

TEST_CASE("an operator whose inputs want no gradient has no backward", "[operators]") {
  AuthorsCase dut;
  dut.inputs = [](const Problem& problem) {
    std::vector inputs = AuthorsCase().inputs(problem);
    for (InputSpec& spec : inputs) spec.wants_gradient = false;
    return inputs;
  };
  const std::vector<Row> rows = check(dut);
  REQUIRE(rows.size() == 2);
  for (const Row& row : rows) CHECK(text_in(row, "direction") == "fwd");
}

TEST_CASE("an input that wants no gradient has none to write, and the error says whose it was",
          "[operators][errors]") {
  const auto write_dx = [](OperatorRun& run) {
    run.launch("add", add_a_little, run.gradient("x"));
  };
  CaseOf dut(naively(nullptr, write_dx));
  dut.inputs = [](const Problem& problem) {
    std::vector inputs = AuthorsCase().inputs(problem);
    inputs.front().wants_gradient = false;
    return inputs;
  };
  CHECK_THROWS_MATCHES(check(dut), Error,
                       Says("KB-O002", "mine bwd, f32 (1, 16, 40)", "'x' has no gradient"));
}

}  // namespace
}  // namespace kernbench::test::wrong_kernels_test
