// The operators of the guide "Writing an operator case" (benches/operators/writing-a-case.md), as
// its reader writes them.  The guide's test compares what stands between "guide: begin" and
// "guide: end".

// guide: begin
#include <kernbench/kernbench.h>

#include <array>

namespace kb = kernbench;
namespace op = kernbench::benches::operators;
namespace tl = kernbench::tl;
// guide: end

// guide: begin
// A gate: y = x sigmoid(x) mul.
class Swiglu : public op::OperatorCase {
 public:
  std::string_view name() const override { return "swiglu"; }
  std::string_view summary() const override { return "a gate: y = x sigmoid(x) * mul"; }

  std::vector<op::InputSpec> build_inputs(const op::Problem& problem) const override {
    return {op::token_input("x", problem), op::token_input("mul", problem)};
  }

  std::vector<op::Value> forward(const op::Inputs& inputs) const override {
    const op::Value x = cast(inputs["x"], kb::DType::f32);
    return {cast(x * sigmoid(x) * inputs["mul"], inputs["x"].dtype())};
  }

  std::vector<op::ProviderInfo> providers() const override { return {op::naive(), op::compiled()}; }

  // {batch, seq, dim}.  Without these two, those of the shipped cases.
  std::vector<op::ProblemSize> checked_sizes() const override { return {{2, 16, 512}}; }
  std::vector<op::ProblemSize> sizes() const override { return {{1, 1024, 2048}, {1, 4096, 2048}}; }
};

KERNBENCH_OPERATOR_CASE(Swiglu);
// guide: end

// guide: begin
// Rows of this PE's tokens, block by block: load() is called for the next block before work() is
// for this one.
void swiglu_forward(tl::Context& tl, const op::TokenShare& share, tl::Pointer x, tl::Pointer mul,
                    tl::Pointer y, std::int64_t dim) {
  const kb::DType dtype = x.dtype();
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    return std::array{tl.load(x + begin * dim, {rows, dim}, dtype),
                      tl.load(mul + begin * dim, {rows, dim}, dtype)};
  };
  const auto work = [&](std::int64_t begin, std::int64_t, const std::array<tl::Tensor, 2>& loaded) {
    const tl::Tensor v = tl.cast(loaded[0], kb::DType::f32);
    const tl::Tensor gate = tl.cast(loaded[1], kb::DType::f32);
    tl.store(y + begin * dim, tl.cast(v * tl.sigmoid(v) * gate, dtype));
  };
  const kb::Bytes per_row = dim * (5 * size_of(dtype) + 4 * size_of(kb::DType::f32));
  op::for_each_block(share, op::rows_per_block(share, per_row), load, work);
}

// With s = sigmoid(x): dmul = dy x s, dx = dy mul s (1 + x (1 - s)).
void swiglu_backward(tl::Context& tl, const op::TokenShare& share, tl::Pointer x, tl::Pointer mul,
                     tl::Pointer dy, tl::Pointer dx, tl::Pointer dmul, std::int64_t dim) {
  const kb::DType dtype = x.dtype();
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    return std::array{tl.load(x + begin * dim, {rows, dim}, dtype),
                      tl.load(mul + begin * dim, {rows, dim}, dtype),
                      tl.load(dy + begin * dim, {rows, dim}, dtype)};
  };
  const auto work = [&](std::int64_t begin, std::int64_t, const std::array<tl::Tensor, 3>& loaded) {
    const tl::Tensor v = tl.cast(loaded[0], kb::DType::f32);
    const tl::Tensor gate = tl.cast(loaded[1], kb::DType::f32);
    const tl::Tensor s = tl.sigmoid(v);
    const tl::Tensor through_s = tl.cast(loaded[2], kb::DType::f32) * s;
    tl.store(dmul + begin * dim, tl.cast(through_s * v, dtype));
    tl.store(dx + begin * dim, tl.cast(through_s * gate * (v * (1 - s) + 1), dtype));
  };
  const kb::Bytes per_row = dim * (8 * size_of(dtype) + 6 * size_of(kb::DType::f32));
  op::for_each_block(share, op::rows_per_block(share, per_row), load, work);
}
// guide: end

// guide: begin
void launch_forward(op::OperatorRun& run) {
  run.launch("swiglu_forward", swiglu_forward, run.input("x"), run.input("mul"), run.output(),
             run.dim());
}

void launch_backward(op::OperatorRun& run) {
  run.launch("swiglu_backward", swiglu_backward, run.input("x"), run.input("mul"), run.upstream(),
             run.gradient("x"), run.gradient("mul"), run.dim());
}

class FusedSwiglu : public Swiglu {
 public:
  std::string_view name() const override { return "fused_swiglu"; }
  std::vector<op::ProviderInfo> providers() const override {
    return {op::naive(), op::compiled(), op::fused(launch_forward, launch_backward)};
  }
};

KERNBENCH_OPERATOR_CASE(FusedSwiglu);
// guide: end

// guide: begin
// dx = dy mul s, as if s did not depend on x.
void wrong_backward(tl::Context& tl, const op::TokenShare& share, tl::Pointer x, tl::Pointer mul,
                    tl::Pointer dy, tl::Pointer dx, tl::Pointer dmul, std::int64_t dim) {
  for (std::int64_t row = 0; row < share.count; ++row) {
    const tl::Tensor v = tl.load(x + row * dim, {1, dim}, x.dtype());
    const tl::Tensor through_s = tl.load(dy + row * dim, {1, dim}, x.dtype()) * tl.sigmoid(v);
    tl.store(dmul + row * dim, through_s * v);
    tl.store(dx + row * dim, through_s * tl.load(mul + row * dim, {1, dim}, x.dtype()));
  }
}

void launch_wrong_backward(op::OperatorRun& run) {
  run.launch("wrong_backward", wrong_backward, run.input("x"), run.input("mul"), run.upstream(),
             run.gradient("x"), run.gradient("mul"), run.dim());
}

class WrongSwiglu : public Swiglu {
 public:
  std::string_view name() const override { return "wrong_swiglu"; }
  std::vector<op::ProviderInfo> providers() const override {
    return {op::naive(), op::fused(launch_forward, launch_wrong_backward)};
  }
};

KERNBENCH_OPERATOR_CASE(WrongSwiglu);
// guide: end

// guide: begin
int main(int argc, char** argv) {
  return kb::benches::main(argc, argv);
}
// guide: end
