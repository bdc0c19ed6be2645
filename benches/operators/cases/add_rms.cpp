// RMSNorm of a sum, as between the layers of a transformer: h = x + residual, rounded to the type;
// y = h / sqrt(mean(h^2) + eps) * weight.  Both are returned, and both have gradients.

#include <array>

#include "benches/operators/cases/cases.h"
#include "benches/operators/cases/rms_kernels.h"
#include "benches/operators/operator_run.h"

namespace kernbench::benches::operators {

namespace {

// It saves r of each row for backward.
void add_rms_forward_kernel(tl::Context& tl, const TokenShare& share, tl::Pointer x,
                            tl::Pointer residual, tl::Pointer weight, tl::Pointer h, tl::Pointer y,
                            tl::Pointer r_of_rows, std::int64_t dim) {
  const DType dtype = x.dtype();
  const tl::Tensor w = load_weight(tl, weight, dim);
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    return std::array{tl.load(x + begin * dim, {rows, dim}, dtype),
                      tl.load(residual + begin * dim, {rows, dim}, dtype)};
  };
  const auto work = [&](std::int64_t begin, std::int64_t, const std::array<tl::Tensor, 2>& loaded) {
    const tl::Tensor sum = loaded[0] + loaded[1];
    tl.store(h + begin * dim, sum);
    const tl::Tensor v = tl.cast(sum, DType::f32);
    const tl::Tensor r = rms_factor(tl, v);
    tl.store(r_of_rows + begin, r);
    tl.store(y + begin * dim, tl.cast(v * r * w, dtype));
  };
  const Bytes per_row = dim * (6 * size_of(dtype) + 3 * kF32Bytes);
  for_each_block(share, rows_per_block(share, per_row, 2 * dim * kF32Bytes), load, work);
}

// The gradient of h adds equally to the gradients of x and of the residual.
void add_rms_backward_kernel(tl::Context& tl, const TokenShare& share, tl::Pointer h,
                             tl::Pointer weight, tl::Pointer dh, tl::Pointer dy,
                             tl::Pointer r_of_rows, tl::Pointer dx, tl::Pointer dweight,
                             std::int64_t dim) {
  const DType dtype = h.dtype();
  const tl::Tensor w = load_weight(tl, weight, dim);
  tl::Tensor dw = tl.zeros({1, dim}, DType::f32);
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    return std::array{tl.load(h + begin * dim, {rows, dim}, dtype),
                      tl.load(dy + begin * dim, {rows, dim}, dtype),
                      tl.load(dh + begin * dim, {rows, dim}, dtype),
                      tl.load(r_of_rows + begin, {rows, 1}, DType::f32)};
  };
  const auto work = [&](std::int64_t begin, std::int64_t, const std::array<tl::Tensor, 4>& loaded) {
    const tl::Tensor v = tl.cast(loaded[0], DType::f32);
    const tl::Tensor d = tl.cast(loaded[1], DType::f32);
    dw = dw + weight_gradient(tl, v, d, loaded[3]);
    const tl::Tensor through_y = rms_gradient(tl, v, d, loaded[3], w);
    tl.store(dx + begin * dim, tl.cast(through_y + tl.cast(loaded[2], DType::f32), dtype));
  };
  const Bytes per_row = dim * (7 * size_of(dtype) + 6 * kF32Bytes);
  for_each_block(share, rows_per_block(share, per_row, 5 * dim * kF32Bytes), load, work);
  tl.store(dweight, dw);
}

void launch_add_rms_forward(OperatorRun& run) {
  run.launch("add_rms_forward", add_rms_forward_kernel, run.input("x"), run.input("residual"),
             run.input("weight"), run.output(0), run.output(1), run.saved("r"), run.dim());
}

// The gradients of x and of the residual are one value, and one tensor.
void launch_add_rms_backward(OperatorRun& run) {
  run.launch("add_rms_backward", add_rms_backward_kernel, run.output(0), run.input("weight"),
             run.upstream(0), run.upstream(1), run.saved("r"), run.gradient("x"),
             run.gradient("weight"), run.dim());
}

class AddRms : public OperatorCase {
 public:
  std::string_view name() const override { return "add_rms"; }
  std::string_view summary() const override {
    return "RMSNorm of a sum: h = x + residual, y = h / sqrt(mean(h^2) + eps) * weight";
  }

  std::vector<InputSpec> build_inputs(const Problem& problem) const override {
    return {token_input("x", problem), token_input("residual", problem),
            parameter("weight", problem, problem.size.dim, 1, 0.25)};
  }

  std::vector<Value> forward(const Inputs& inputs) const override {
    const Value h = inputs["x"] + inputs["residual"];
    const Value y = rms_graph(cast(h, DType::f32), inputs["weight"]);
    return {h, cast(y, h.dtype())};
  }

  std::vector<ProviderInfo> providers() const override {
    return {naive(), compiled(), fused(launch_add_rms_forward, launch_add_rms_backward)};
  }
};

}  // namespace

std::unique_ptr<OperatorCase> make_add_rms() {
  return std::make_unique<AddRms>();
}

}  // namespace kernbench::benches::operators
