#include <kernbench/kernbench.h>

KERNBENCH_BENCH("my-bench", "an all_reduce over all ranks", {"n", "4096", "elements per rank"}) {
  const std::int64_t n = bench.settings().integer("n", 1, 1 << 20);
  const auto torch = bench.make_context();
  torch->distributed.init_process_group("ahbm");
  torch->multiprocessing.spawn([&](int rank) {
    torch->ahbm.set_device(rank);
    torch->distributed.all_reduce(torch->full({1, n}, rank));
  }, {}, bench.world_size());
  bench.add_row(kernbench::benches::Row().set("n", n).set("time_ns", torch->engine().now_ns()));
}
int main(int argc, char** argv) { return kernbench::benches::main(argc, argv); }
