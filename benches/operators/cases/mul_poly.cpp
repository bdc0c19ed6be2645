// PolyNorm times a gate: y = poly(x) * mul (poly.cpp).

#include "benches/operators/cases/cases.h"
#include "benches/operators/cases/poly_kernels.h"
#include "benches/operators/operator_run.h"

namespace kernbench::benches::operators {

namespace {

void mul_poly_forward_kernel(tl::Context& tl, const TokenShare& share, tl::Pointer x,
                             tl::Pointer mul, tl::Pointer weight, tl::Pointer bias, tl::Pointer y,
                             tl::Pointer norms, std::int64_t dim) {
  const PolyCoefficients coefficients = load_coefficients(tl, weight, bias);
  poly_forward(tl, share, {.x = x, .mul = mul, .y = y, .norms = norms, .dim = dim}, 0,
               [&](std::int64_t, std::int64_t) { return coefficients; });
}

void mul_poly_backward_kernel(tl::Context& tl, const TokenShare& share, tl::Pointer x,
                              tl::Pointer mul, tl::Pointer weight, tl::Pointer bias, tl::Pointer dy,
                              tl::Pointer norms, tl::Pointer dx, tl::Pointer dmul,
                              tl::Pointer dweight, tl::Pointer dbias, std::int64_t dim) {
  const PolyCoefficients coefficients = load_coefficients(tl, weight, bias);
  CoefficientSums sums(tl);
  poly_backward(
      tl, share, {.x = x, .mul = mul, .dy = dy, .norms = norms, .dx = dx, .dmul = dmul, .dim = dim},
      0, [&](std::int64_t, std::int64_t) { return coefficients; },
      [&](std::int64_t, std::int64_t, const PolyCoefficients& of_rows) { sums.add(of_rows); });
  sums.store(dweight, dbias);
}

void launch_mul_poly_forward(OperatorRun& run) {
  run.launch("mul_poly_forward", mul_poly_forward_kernel, run.input("x"), run.input("mul"),
             run.input("weight"), run.input("bias"), run.output(), run.saved("norms", 3),
             run.dim());
}

void launch_mul_poly_backward(OperatorRun& run) {
  run.launch("mul_poly_backward", mul_poly_backward_kernel, run.input("x"), run.input("mul"),
             run.input("weight"), run.input("bias"), run.upstream(), run.saved("norms", 3),
             run.gradient("x"), run.gradient("mul"), run.gradient("weight"), run.gradient("bias"),
             run.dim());
}

class MulPoly : public OperatorCase {
 public:
  std::string_view name() const override { return "mul_poly"; }
  std::string_view summary() const override {
    return "PolyNorm times a gate: y = (w0 norm(x^3) + w1 norm(x^2) + w2 norm(x) + b) * mul";
  }

  std::vector<InputSpec> build_inputs(const Problem& problem) const override {
    return {token_input("x", problem), token_input("mul", problem),
            parameter("weight", problem, 3, 0.5, 0.25), parameter("bias", problem, 1, 0, 0.25)};
  }

  std::vector<Value> forward(const Inputs& inputs) const override {
    const Value y = compute_poly(
        cast(inputs["x"], DType::f32),
        {inputs.column("weight", 0), inputs.column("weight", 1), inputs.column("weight", 2)},
        inputs["bias"]);
    return {cast(y * inputs["mul"], inputs["x"].dtype())};
  }

  std::vector<ProviderInfo> providers() const override {
    return {naive(), compiled(), fused(launch_mul_poly_forward, launch_mul_poly_backward)};
  }
};

}  // namespace

std::unique_ptr<OperatorCase> make_mul_poly() {
  return std::make_unique<MulPoly>();
}

}  // namespace kernbench::benches::operators
