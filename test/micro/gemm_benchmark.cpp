// A matrix product of the evaluation beside Eigen's own of f32 matrices: on one thread, by CPU
// time, and on all cores, by wall time, where Eigen computes as many bands of rows as there are
// cores.
//
// Limit: 80 % of Eigen's rate from 32 on.  Both are measured in turns, so that a noisy machine
// treats them alike.

#include <Eigen/Core>
#include <algorithm>
#include <thread>
#include <vector>

#include "sim_engine/values/data_executor.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace {

constexpr double kLimitShare = 0.8;

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Best of several turns, each of which is long enough to be measured.
class GemmRates {
 public:
  GemmRates(const sim::GemmSize& size, DType dtype, int threads = 1)
      : size_(size),
        threads_(threads),
        executor_(store_, threads),
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
        std::max(evaluation_, measure_rate(rounds, [&] {
                   executor_.read(store_.gemm(size_, a_, b_, sim::Value{}, DType::f32), out_);
                 }));
    eigen_ = std::max(eigen_, measure_rate(rounds, [&] { multiply_by_eigen(); }));
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

  void multiply_by_eigen() {
    if (threads_ == 1) {
      eigen_c_.noalias() = eigen_a_ * eigen_b_;
      return;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < threads_; ++i) {
      threads.emplace_back(
          [this, begin = size_.m * i / threads_, end = size_.m * (i + 1) / threads_] {
            eigen_c_.middleRows(begin, end - begin).noalias() =
                eigen_a_.middleRows(begin, end - begin) * eigen_b_;
          });
    }
    for (std::thread& thread : threads) thread.join();
  }

  template <class Action>
  double measure_rate(int rounds, const Action& action) const {
    const auto run = [&] {
      for (int i = 0; i < rounds; ++i) action();
    };
    if (threads_ > 1) return rounds * flops_ / measure_seconds(run);
    const double start = cpu_seconds();
    run();
    return rounds * flops_ / (cpu_seconds() - start);
  }

  sim::GemmSize size_;
  int threads_;
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

void evaluated_gemm_on_cores(benchmark::State& state) {
  const std::int64_t side = state.range(0);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  GemmRates rates({side, side, side}, DType::f32, cores);
  for (auto _ : state) rates.take_turn();
  rates.report(state);
}
BENCHMARK(evaluated_gemm_on_cores)
    ->ArgName("side")
    ->Arg(512)
    ->Arg(1024)
    ->Arg(2048)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(10);

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

}  // namespace kernbench::micro
