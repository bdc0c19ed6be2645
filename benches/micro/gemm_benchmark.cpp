// A matrix product of the evaluation beside Eigen's own of f32 matrices, on one thread.
//
// Limit: 80 % of Eigen's rate from 128 on (DESIGN.md 9).  Both are measured in turns, so that a
// noisy machine treats them alike.

#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "benches/micro/micro.h"
#include "sim_engine/values/data_executor.h"

namespace kernbench::benches::micro {

namespace {

constexpr double kLimitShare = 0.8;

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Best of several turns, each of which is long enough to be measured.
class GemmRates {
 public:
  GemmRates(const sim::GemmSize& size, DType dtype)
      : size_(size),
        executor_(store_, 1),
        a_(random_value(dtype, size.m * size.k)),
        b_(random_value(dtype, size.k * size.n)),
        out_(static_cast<std::size_t>(size.m * size.n)),
        eigen_a_(Matrix::Random(size.m, size.k)),
        eigen_b_(Matrix::Random(size.k, size.n)),
        eigen_c_(size.m, size.n),
        flops_(2.0 * static_cast<double>(size.m * size.n) * static_cast<double>(size.k)) {}

  void take_turn() {
    const auto rounds = static_cast<int>(kFlopsPerTurn / flops_) + 1;
    evaluation_ =
        std::max(evaluation_, rate_of(rounds, [&] {
                   executor_.read(store_.gemm(size_, a_, b_, sim::Value{}, DType::f32), out_);
                 }));
    eigen_ = std::max(eigen_, rate_of(rounds, [&] { eigen_c_.noalias() = eigen_a_ * eigen_b_; }));
    benchmark::DoNotOptimize(eigen_c_.data());
  }

  void report(benchmark::State& state) const {
    state.counters["GFLOP_per_s"] = evaluation_ / 1e9;
    state.counters["Eigen_GFLOP_per_s"] = eigen_ / 1e9;
    state.counters["share_of_Eigen"] = evaluation_ / eigen_;
    state.counters["ratio_to_limit"] = evaluation_ / eigen_ / kLimitShare;
  }

 private:
  static constexpr double kFlopsPerTurn = 2e9;

  sim::Value random_value(DType dtype, std::int64_t count) {
    const Matrix elements = Matrix::Random(1, count);
    return store_.literal(dtype, std::span(elements.data(), static_cast<std::size_t>(count)));
  }

  template <class Action>
  double rate_of(int rounds, const Action& action) const {
    const double start = cpu_seconds();
    for (int i = 0; i < rounds; ++i) action();
    return rounds * flops_ / (cpu_seconds() - start);
  }

  sim::GemmSize size_;
  sim::MemoryStore store_{true};
  sim::DataExecutor executor_;
  sim::Value a_;
  sim::Value b_;
  std::vector<float> out_;
  Matrix eigen_a_;
  Matrix eigen_b_;
  Matrix eigen_c_;
  double flops_;
  double evaluation_ = 0;
  double eigen_ = 0;
};

void evaluated_gemm(benchmark::State& state, DType dtype) {
  const std::int64_t side = state.range(0);
  GemmRates rates({side, side, side}, dtype);
  for (auto _ : state) rates.take_turn();
  rates.report(state);
}

#define KERNBENCH_GEMM_BENCHMARK(dtype)                  \
  BENCHMARK_CAPTURE(evaluated_gemm, dtype, DType::dtype) \
      ->ArgName("side")                                  \
      ->Arg(32)                                          \
      ->Arg(64)                                          \
      ->Arg(128)                                         \
      ->Arg(256)                                         \
      ->Arg(512)                                         \
      ->Arg(1024)                                        \
      ->Unit(benchmark::kMillisecond)                    \
      ->Iterations(10)
KERNBENCH_GEMM_BENCHMARK(f16);
KERNBENCH_GEMM_BENCHMARK(bf16);
KERNBENCH_GEMM_BENCHMARK(f32);

}  // namespace

}  // namespace kernbench::benches::micro
