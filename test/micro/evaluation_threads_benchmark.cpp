// Evaluation on all cores beside evaluation on one, in wall time.
//
// Limit: no slower for little work; for much work, a speed-up of at least 80 % of the number of
// cores (on an otherwise idle machine).  "products" are 64 independent matrix products, "product" a
// large one, "sums" element-wise work on shards of an all-reduce, "small" a great many values of a
// few elements.

#include <algorithm>
#include <thread>
#include <vector>

#include "sim_engine/values/data_executor.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace evaluation_threads_benchmark {
namespace {

// Makes a graph in the store and returns the values to be read.
using MakeGraph = sim::Value (*)(sim::MemoryStore&);

sim::Value matrix(sim::MemoryStore& store, std::int64_t side) {
  return store.literal(DType::f16, std::vector<float>(static_cast<std::size_t>(side * side), 0.5F));
}

sim::Value products(sim::MemoryStore& store) {
  const sim::Value a = matrix(store, 256);
  std::vector<sim::Value> all;
  for (int i = 0; i < 64; ++i) {
    all.push_back(store.gemm({256, 256, 256}, a, a, sim::Value{}, DType::f32));
  }
  return store.concat(all);
}

sim::Value product(sim::MemoryStore& store) {
  const sim::Value a = matrix(store, 1024);
  return store.gemm({1024, 1024, 1024}, a, a, sim::Value{}, DType::f32);
}

sim::Value chains(sim::MemoryStore& store, std::int64_t elements, int length) {
  std::vector<sim::Value> all;
  for (int i = 0; i < 32; ++i) {
    all.push_back(
        store.literal(DType::f16, std::vector<float>(static_cast<std::size_t>(elements), 1)));
  }
  for (int i = 0; i < length; ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) {
      all[j] = store.math(sim::MathOp::add, all[j], all[(j + 1) % all.size()]);
    }
  }
  return store.concat(all);
}

sim::Value sums(sim::MemoryStore& store) {
  return chains(store, 49152, 40);
}

sim::Value small(sim::MemoryStore& store) {
  return chains(store, 8, 4000);
}

double seconds_of_read(MakeGraph make, int threads) {
  sim::MemoryStore store(true);
  sim::DataExecutor executor(store, threads);
  const sim::Value value = make(store);
  std::vector<float> out(static_cast<std::size_t>(value.element_count()));
  return measure_seconds([&] { executor.read(value, out); });
}

void evaluation_on_threads(benchmark::State& state, MakeGraph make, bool is_much) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  double one = 1e9;
  double all = 1e9;
  for (auto _ : state) {
    one = std::min(one, seconds_of_read(make, 1));
    all = std::min(all, seconds_of_read(make, cores));
  }
  state.counters["cores"] = cores;
  state.counters["speedup"] = one / all;
  state.counters["ratio_to_limit"] = one / all / (is_much ? 0.8 * cores : 0.95);
}

#define KERNBENCH_THREADS_BENCHMARK(graph, is_much)               \
  BENCHMARK_CAPTURE(evaluation_on_threads, graph, graph, is_much) \
      ->Unit(benchmark::kMillisecond)                             \
      ->Iterations(10)
KERNBENCH_THREADS_BENCHMARK(products, true);
KERNBENCH_THREADS_BENCHMARK(product, true);
KERNBENCH_THREADS_BENCHMARK(sums, true);
KERNBENCH_THREADS_BENCHMARK(small, false);

}  // namespace
}  // namespace evaluation_threads_benchmark

}  // namespace kernbench::micro
