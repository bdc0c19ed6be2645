// PolyNorm times a gate, with weights and bias of each token's expert (a layer of a mixture of
// experts): y = poly(x; weight[e], bias[e]) * mul, tokens in the order of their experts.
//
// offsets [1, experts + 1] say where each expert's tokens begin.  They are data: which expert a
// token is of is found by comparisons and a product with a one-hot matrix (expert_kernels.h).

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <utility>

#include "benches/operators/cases/cases.h"
#include "benches/operators/cases/poly_kernels.h"
#include "benches/operators/expert_kernels.h"
#include "benches/operators/fusion.h"
#include "benches/operators/graph_provider.h"
#include "benches/operators/operator_run.h"

namespace kernbench::benches::operators {

namespace {

constexpr std::int64_t kExperts = 48;  // of a rank
constexpr DType kF32 = DType::f32;

// Weights and bias of all experts, [4, experts] f32.
tl::Tensor load_all_coefficients(tl::Context& tl, tl::Pointer weight, tl::Pointer bias) {
  const auto load = [&](const tl::Pointer& from, std::int64_t columns) {
    const tl::Tensor all = tl.load(from, {kExperts, columns}, from.dtype());
    return tl.reshape(tl.trans(tl.cast(all, kF32)), {columns * kExperts});
  };
  return tl.reshape(tl.cat(std::array{load(weight, 3), load(bias, 1)}), {4, kExperts});
}

// Row by row of [4, rows], as columns.
PolyCoefficients split_columns(tl::Context& tl, const tl::Tensor& rows_of_four, std::int64_t rows) {
  const tl::Tensor flat = tl.reshape(rows_of_four, {4 * rows});
  const auto column = [&](std::int64_t i) {
    return tl.reshape(tl.narrow(flat, i * rows, rows), {rows, 1});
  };
  return {column(0), column(1), column(2), column(3)};
}

tl::Tensor join_four_rows(tl::Context& tl, const PolyCoefficients& columns, std::int64_t rows) {
  std::vector<tl::Tensor> flat;
  for (const tl::Tensor& column : columns) flat.push_back(tl.reshape(column, {rows}));
  return tl.reshape(tl.cat(flat), {4, rows});
}

// The parameters of the experts, for a block of rows.
class Experts {
 public:
  Experts(tl::Context& tl, const TokenShare& share, tl::Pointer weight, tl::Pointer bias,
          tl::Pointer offsets)
      : tl_(tl),
        share_(share),
        offsets_(tl.load(offsets, {kExperts + 1}, kF32)),
        all_(load_all_coefficients(tl, weight, bias)) {}

  static constexpr Bytes kScratch = 128 * 1024;  // one-hot matrices of a block, and parameters

  PolyCoefficients at(std::int64_t begin, std::int64_t rows) {
    const tl::Tensor experts = one_hot(tl_, offsets_, share_.first + begin, rows, true);
    return split_columns(tl_, tl_.dot(all_, experts), rows);
  }

  void add(std::int64_t begin, std::int64_t rows, const PolyCoefficients& gradients) {
    const tl::Tensor experts = one_hot(tl_, offsets_, share_.first + begin, rows, false);
    const tl::Tensor of_rows = join_four_rows(tl_, gradients, rows);
    sums_ = sums_ ? tl_.dot(of_rows, experts, std::move(*sums_)) : tl_.dot(of_rows, experts);
  }

  void store(tl::Pointer dweight, tl::Pointer dbias) const {
    const tl::Tensor flat = tl_.reshape(*sums_, {4 * kExperts});
    const auto part = [&](std::int64_t begin, std::int64_t rows) {
      const tl::Tensor some = tl_.narrow(flat, begin * kExperts, rows * kExperts);
      return tl_.trans(tl_.reshape(some, {rows, kExperts}));
    };
    tl_.store(dweight, part(0, 3));
    tl_.store(dbias, part(3, 1));
  }

 private:
  tl::Context& tl_;
  const TokenShare& share_;
  const tl::Tensor offsets_;
  const tl::Tensor all_;
  std::optional<tl::Tensor> sums_;  // [4, experts]
};

void grouped_mul_poly_forward_kernel(tl::Context& tl, const TokenShare& share, tl::Pointer x,
                                     tl::Pointer mul, tl::Pointer weight, tl::Pointer bias,
                                     tl::Pointer offsets, tl::Pointer y, tl::Pointer norms,
                                     std::int64_t dim) {
  Experts experts(tl, share, weight, bias, offsets);
  poly_forward(tl, share, {.x = x, .mul = mul, .y = y, .norms = norms, .dim = dim},
               Experts::kScratch,
               [&](std::int64_t begin, std::int64_t rows) { return experts.at(begin, rows); });
}

void grouped_mul_poly_backward_kernel(tl::Context& tl, const TokenShare& share, tl::Pointer x,
                                      tl::Pointer mul, tl::Pointer weight, tl::Pointer bias,
                                      tl::Pointer offsets, tl::Pointer dy, tl::Pointer norms,
                                      tl::Pointer dx, tl::Pointer dmul, tl::Pointer dweight,
                                      tl::Pointer dbias, std::int64_t dim) {
  Experts experts(tl, share, weight, bias, offsets);
  poly_backward(
      tl, share, {.x = x, .mul = mul, .dy = dy, .norms = norms, .dx = dx, .dmul = dmul, .dim = dim},
      Experts::kScratch,
      [&](std::int64_t begin, std::int64_t rows) { return experts.at(begin, rows); },
      [&](std::int64_t begin, std::int64_t rows, const PolyCoefficients& gradients) {
        experts.add(begin, rows, gradients);
      });
  experts.store(dweight, dbias);
}

void launch_grouped_mul_poly_forward(OperatorRun& run) {
  run.launch("grouped_forward", grouped_mul_poly_forward_kernel, run.input("x"), run.input("mul"),
             run.input("weight"), run.input("bias"), run.input("offsets"), run.output(),
             run.saved("norms", 3), run.dim());
}

void launch_grouped_mul_poly_backward(OperatorRun& run) {
  run.launch("grouped_backward", grouped_mul_poly_backward_kernel, run.input("x"), run.input("mul"),
             run.input("weight"), run.input("bias"), run.input("offsets"), run.upstream(),
             run.saved("norms", 3), run.gradient("x"), run.gradient("mul"), run.gradient("weight"),
             run.gradient("bias"), run.dim());
}

// The case with given coefficients, [tokens, 1] each.

using FourPointers = std::array<tl::Pointer, 4>;

PolyCoefficients load_rows(tl::Context& tl, const FourPointers& from, std::int64_t begin,
                           std::int64_t rows) {
  const auto load = [&](const tl::Pointer& at) { return tl.load(at + begin, {rows, 1}, kF32); };
  return {load(from[0]), load(from[1]), load(from[2]), load(from[3])};
}

void forward_of_rows(tl::Context& tl, const TokenShare& share, tl::Pointer x, tl::Pointer mul,
                     tl::Pointer c0, tl::Pointer c1, tl::Pointer c2, tl::Pointer c3, tl::Pointer y,
                     tl::Pointer norms, std::int64_t dim) {
  const FourPointers coefficients = {c0, c1, c2, c3};
  poly_forward(tl, share, {.x = x, .mul = mul, .y = y, .norms = norms, .dim = dim}, 0,
               [&](std::int64_t begin, std::int64_t rows) {
                 return load_rows(tl, coefficients, begin, rows);
               });
}

void backward_of_rows(tl::Context& tl, const TokenShare& share, tl::Pointer x, tl::Pointer mul,
                      tl::Pointer c0, tl::Pointer c1, tl::Pointer c2, tl::Pointer c3,
                      tl::Pointer dy, tl::Pointer norms, tl::Pointer dx, tl::Pointer dmul,
                      tl::Pointer d0, tl::Pointer d1, tl::Pointer d2, tl::Pointer d3,
                      std::int64_t dim) {
  const FourPointers coefficients = {c0, c1, c2, c3};
  const FourPointers gradients = {d0, d1, d2, d3};
  poly_backward(
      tl, share, {.x = x, .mul = mul, .dy = dy, .norms = norms, .dx = dx, .dmul = dmul, .dim = dim},
      0,
      [&](std::int64_t begin, std::int64_t rows) {
        return load_rows(tl, coefficients, begin, rows);
      },
      [&](std::int64_t begin, std::int64_t, const PolyCoefficients& of_rows) {
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          tl.store(gradients[i] + begin, of_rows[i]);
        }
      });
}

// Weights and bias of each token's expert: a graph of its own, whose derivative sums them up again.
std::vector<Value> look_up(const Inputs& inputs) {
  const Value offsets = inputs["offsets"];
  std::vector<Value> found;
  for (const int column : {0, 1, 2}) {
    found.push_back(per_token(inputs.column("weight", column), offsets));
  }
  found.push_back(per_token(inputs.column("bias", 0), offsets));
  return found;
}

// The handwritten kernel inside a compiled graph, like a custom operation in torch.compile: the
// kernel does not know experts, and the operations around it are fused.
class CompiledFused : public Provider {
 public:
  explicit CompiledFused(OperatorRun& run)
      : run_(run),
        look_up_(
            define({find_spec(run, "weight"), find_spec(run, "bias"), find_spec(run, "offsets")},
                   look_up, run.problem())),
        inputs_({run.input("weight"), run.input("bias"), run.input("offsets"), run.saved("d0"),
                 run.saved("d1"), run.saved("d2"), run.saved("d3")}),
        part_(run, look_up_, inputs_),
        compiled_(part_with_gradients(), plan_fused(look_up_)) {}

  void forward() override {
    compiled_.forward();
    run_.launch("grouped_forward_of_rows", forward_of_rows, run_.input("x"), run_.input("mul"),
                part_.output(0), part_.output(1), part_.output(2), part_.output(3), run_.output(),
                run_.saved("norms", 3), run_.dim());
  }

  void backward() override {
    run_.launch("grouped_backward_of_rows", backward_of_rows, run_.input("x"), run_.input("mul"),
                part_.output(0), part_.output(1), part_.output(2), part_.output(3), run_.upstream(),
                run_.saved("norms", 3), run_.gradient("x"), run_.gradient("mul"), part_.upstream(0),
                part_.upstream(1), part_.upstream(2), part_.upstream(3), run_.dim());
    compiled_.backward();
  }

 private:
  static const InputSpec& find_spec(const OperatorRun& run, std::string_view name) {
    return *std::ranges::find(run.definition().inputs, name, &InputSpec::name);
  }

  OperatorRun& part_with_gradients() {
    for (const std::string_view name : {"weight", "bias"}) {
      part_.place_gradient(name, run_.gradient(name));
    }
    return part_;
  }

  OperatorRun& run_;
  const Definition look_up_;
  const std::vector<Tensor> inputs_;
  OperatorRun part_;
  GraphProvider compiled_;
};

// Offsets that give experts very different numbers of tokens, some of them none.
std::vector<float> draw_offsets(const Problem& problem) {
  std::mt19937_64 draw(problem.seed);
  const auto tokens = static_cast<std::uint64_t>(problem.size.tokens());
  std::vector<float> offsets = {0, static_cast<float>(tokens)};
  while (offsets.size() <= kExperts) offsets.push_back(static_cast<float>(draw() % (tokens + 1)));
  std::ranges::sort(offsets);
  return offsets;
}

class GroupedMulPoly : public OperatorCase {
 public:
  std::string_view name() const override { return "grouped_mul_poly"; }
  std::string_view summary() const override {
    return "PolyNorm times a gate, with weights and bias of each token's expert, of 48";
  }

  std::vector<InputSpec> build_inputs(const Problem& problem) const override {
    return {token_input("x", problem), token_input("mul", problem),
            expert_parameter("weight", problem, kExperts, 3, 0.5, 0.25),
            expert_parameter("bias", problem, kExperts, 1, 0, 0.25),
            expert_offsets("offsets", draw_offsets(problem))};
  }

  std::vector<Value> forward(const Inputs& inputs) const override {
    const std::vector<Value> of_token = look_up(inputs);
    const Value y =
        compute_poly(cast(inputs["x"], kF32), {of_token[0], of_token[1], of_token[2]}, of_token[3]);
    return {cast(y * inputs["mul"], inputs["x"].dtype())};
  }

  std::vector<ProviderInfo> providers() const override {
    return {naive(),
            compiled(),
            fused(launch_grouped_mul_poly_forward, launch_grouped_mul_poly_backward),
            {"compiled_fused", "Compiled Fused",
             [](OperatorRun& run) { return std::make_unique<CompiledFused>(run); }}};
  }

  // 1,024 to 65,536 tokens of dim 1280.
  std::vector<ProblemSize> sizes() const override {
    std::vector<ProblemSize> sizes;
    for (std::int64_t tokens = 1024; tokens <= 65'536; tokens *= 2) {
      sizes.push_back({1, tokens, 1280});
    }
    return sizes;
  }
};

}  // namespace

std::unique_ptr<OperatorCase> make_grouped_mul_poly() {
  return std::make_unique<GroupedMulPoly>();
}

}  // namespace kernbench::benches::operators
