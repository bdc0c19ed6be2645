// RMSNorm (Zhang and Sennrich, 2019; torch.nn.RMSNorm): y = x / sqrt(mean(x^2) + eps) * weight.

#include <array>

#include "benches/operators/cases/cases.h"
#include "benches/operators/operator_run.h"
#include "benches/operators/row_blocks.h"

namespace kernbench::benches::operators {

namespace {

constexpr double kEps = 1e-6;
constexpr DType kF32 = DType::f32;
constexpr Bytes kF32Bytes = size_of(kF32);

// Leaves r = 1 / sqrt(mean(x^2) + eps) of each row to backward.
void rms_forward(tl::Context& tl, const TokenShare& share, tl::Pointer x, tl::Pointer weight,
                 tl::Pointer y, tl::Pointer r_of_rows, std::int64_t dim) {
  const DType dtype = x.dtype();
  const tl::Tensor w = tl.cast(tl.load(weight, {1, dim}, dtype), kF32);
  const Bytes per_row = dim * (3 * size_of(dtype) + 3 * kF32Bytes);
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    return tl.load(x + begin * dim, {rows, dim}, dtype);
  };
  const auto work = [&](std::int64_t begin, std::int64_t, const tl::Tensor& loaded) {
    const tl::Tensor v = tl.cast(loaded, kF32);
    const tl::Tensor sum = tl.sum(v * v, 1, {.keep_dims = true});
    const tl::Tensor r = tl.rsqrt(sum * (1.0 / static_cast<double>(dim)) + kEps);
    tl.store(r_of_rows + begin, r);
    tl.store(y + begin * dim, tl.cast(v * r * w, dtype));
  };
  for_each_block(share, rows_per_block(share, per_row, 2 * dim * kF32Bytes), load, work);
}

// With n = x r and g = dy weight:  dx = r (g - n mean(g n)) = g r - x r^3 mean(g x),
//                                  dweight = sum over tokens of dy n.
void rms_backward(tl::Context& tl, const TokenShare& share, tl::Pointer x, tl::Pointer weight,
                  tl::Pointer dy, tl::Pointer r_of_rows, tl::Pointer dx, tl::Pointer dweight,
                  std::int64_t dim) {
  const DType dtype = x.dtype();
  const tl::Tensor w = tl.cast(tl.load(weight, {1, dim}, dtype), kF32);
  tl::Tensor dw = tl.zeros({1, dim}, kF32);
  const Bytes per_row = dim * (5 * size_of(dtype) + 6 * kF32Bytes);
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    return std::array{tl.load(x + begin * dim, {rows, dim}, dtype),
                      tl.load(dy + begin * dim, {rows, dim}, dtype),
                      tl.load(r_of_rows + begin, {rows, 1}, kF32)};
  };
  const auto work = [&](std::int64_t begin, std::int64_t, const std::array<tl::Tensor, 3>& loaded) {
    const tl::Tensor v = tl.cast(loaded[0], kF32);
    const tl::Tensor d = tl.cast(loaded[1], kF32);
    const tl::Tensor& r = loaded[2];
    dw = dw + tl.sum(d * v * r, 0, {.keep_dims = true});
    const tl::Tensor g = d * w;
    const tl::Tensor gx = tl.sum(g * v, 1, {.keep_dims = true});
    const tl::Tensor minus_k = r * r * r * gx * (-1.0 / static_cast<double>(dim));
    tl.store(dx + begin * dim, tl.cast(tl.fma(v, minus_k, g * r), dtype));
  };
  for_each_block(share, rows_per_block(share, per_row, 5 * dim * kF32Bytes), load, work);
  tl.store(dweight, dw);
}

void launch_forward(OperatorRun& run) {
  run.launch("rms_forward", rms_forward, run.input("x"), run.input("weight"), run.output(),
             run.saved("r"), run.dim());
}

void launch_backward(OperatorRun& run) {
  run.launch("rms_backward", rms_backward, run.input("x"), run.input("weight"), run.upstream(),
             run.saved("r"), run.gradient("x"), run.gradient("weight"), run.dim());
}

class Rms : public OperatorCase {
 public:
  std::string_view name() const override { return "rms"; }
  std::string_view summary() const override {
    return "RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight";
  }

  std::vector<InputSpec> build_inputs(const Problem& problem) const override {
    return {token_input("x", problem), parameter("weight", problem, problem.size.dim, 1, 0.25)};
  }

  std::vector<Value> forward(const Inputs& inputs) const override {
    const Value x = cast(inputs["x"], kF32);
    const Value r = rsqrt(mean(power(x, 2)) + kEps);
    return {cast(x * r * inputs["weight"], inputs["x"].dtype())};
  }

  std::vector<ProviderInfo> providers() const override {
    return {naive(), compiled(), fused(launch_forward, launch_backward)};
  }
};

}  // namespace

std::unique_ptr<OperatorCase> make_rms() {
  return std::make_unique<Rms>();
}

}  // namespace kernbench::benches::operators
