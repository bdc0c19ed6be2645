// RMSNorm (Zhang and Sennrich, 2019; torch.nn.RMSNorm): y = x / sqrt(mean(x^2) + eps) * weight.

#include <array>

#include "benches/operators/cases/cases.h"
#include "benches/operators/cases/rms_kernels.h"
#include "benches/operators/operator_run.h"

namespace kernbench::benches::operators {

namespace {

// It saves r of each row for backward.
void rms_forward_kernel(tl::Context& tl, const TokenShare& share, tl::Pointer x, tl::Pointer weight,
                        tl::Pointer y, tl::Pointer r_of_rows, std::int64_t dim) {
  const DType dtype = x.dtype();
  const tl::Tensor w = load_weight(tl, weight, dim);
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    return tl.load(x + begin * dim, {rows, dim}, dtype);
  };
  const auto work = [&](std::int64_t begin, std::int64_t, const tl::Tensor& loaded) {
    const tl::Tensor v = tl.cast(loaded, DType::f32);
    const tl::Tensor r = rms_factor(tl, v);
    tl.store(r_of_rows + begin, r);
    tl.store(y + begin * dim, tl.cast(v * r * w, dtype));
  };
  const Bytes per_row = dim * (3 * size_of(dtype) + 3 * kF32Bytes);
  for_each_block(share, rows_per_block(share, per_row, 2 * dim * kF32Bytes), load, work);
}

void rms_backward_kernel(tl::Context& tl, const TokenShare& share, tl::Pointer x,
                         tl::Pointer weight, tl::Pointer dy, tl::Pointer r_of_rows, tl::Pointer dx,
                         tl::Pointer dweight, std::int64_t dim) {
  const DType dtype = x.dtype();
  const tl::Tensor w = load_weight(tl, weight, dim);
  tl::Tensor dw = tl.zeros({1, dim}, DType::f32);
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    return std::array{tl.load(x + begin * dim, {rows, dim}, dtype),
                      tl.load(dy + begin * dim, {rows, dim}, dtype),
                      tl.load(r_of_rows + begin, {rows, 1}, DType::f32)};
  };
  const auto work = [&](std::int64_t begin, std::int64_t, const std::array<tl::Tensor, 3>& loaded) {
    const tl::Tensor v = tl.cast(loaded[0], DType::f32);
    const tl::Tensor d = tl.cast(loaded[1], DType::f32);
    dw = dw + weight_gradient(tl, v, d, loaded[2]);
    tl.store(dx + begin * dim, tl.cast(rms_gradient(tl, v, d, loaded[2], w), dtype));
  };
  const Bytes per_row = dim * (5 * size_of(dtype) + 6 * kF32Bytes);
  for_each_block(share, rows_per_block(share, per_row, 5 * dim * kF32Bytes), load, work);
  tl.store(dweight, dw);
}

void launch_rms_forward(OperatorRun& run) {
  run.launch("rms_forward", rms_forward_kernel, run.input("x"), run.input("weight"), run.output(),
             run.saved("r"), run.dim());
}

void launch_rms_backward(OperatorRun& run) {
  run.launch("rms_backward", rms_backward_kernel, run.input("x"), run.input("weight"),
             run.upstream(), run.saved("r"), run.gradient("x"), run.gradient("weight"), run.dim());
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
    const Value y = rms_graph(cast(inputs["x"], DType::f32), inputs["weight"]);
    return {cast(y, inputs["x"].dtype())};
  }

  std::vector<ProviderInfo> providers() const override {
    return {naive(), compiled(), fused(launch_rms_forward, launch_rms_backward)};
  }
};

}  // namespace

std::unique_ptr<OperatorCase> make_rms() {
  return std::make_unique<Rms>();
}

}  // namespace kernbench::benches::operators
