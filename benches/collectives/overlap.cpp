// overlap: collectives beside kernels, beside a stream of loads, and small ones beside a large one.

#include "benches/collectives/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "benches/bench/bench.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/run_ranks.h"

namespace kernbench::benches::collectives {

namespace {

constexpr std::int64_t kLoadElements = 32 << 10;  // 64 KiB of f16
constexpr int kSmallCount = 8;
constexpr DPPolicy kOverAllPes{.cube = Shard::column_wise, .pe = Shard::column_wise};

// Says which of the two collectives run at once.
struct Parts {
  bool large = false;  // the all_reduce
  bool other = false;
};

struct Sizes {
  Bytes all_reduce = 0;
  std::int64_t gemm = 0;   // of a composite of [gemm, gemm] matrices
  std::int64_t loads = 0;  // by each PE
};

Tensor summand(RuntimeContext& torch, Bytes bytes, const DPPolicy& dp = kOverAllPes) {
  return torch.empty({1, bytes / size_of(DType::f16)}, {.dtype = DType::f16, .dp = dp});
}

// Runs a worker on all ranks of a system of its own; returns the time that it took.
Time on_all_ranks(
    PointContext& point, const std::function<void(RuntimeContext&, int rank)>& work,
    const std::function<void(const EngineView&)>& look = [](const EngineView&) {}) {
  const Bench& bench = point.bench();
  const auto torch = point.make_context(bench.topology(), {.ccl = bench.ccl(), .data = false});
  torch->distributed.init_process_group("ahbm");
  const Time begin = torch->engine().now();
  run_on_devices(*torch, torch->distributed.get_world_size(),
                 [&](int rank) { work(*torch, rank); });
  const Time took = torch->engine().now() - begin;
  profiler::timed(*torch, "all ranks", begin, begin + took);
  look(torch->engine());
  torch->distributed.destroy_process_group();
  return took;
}

void multiply(tl::Context& tl, tl::Pointer a, tl::Pointer b, tl::Pointer c, std::int64_t n) {
  tl.composite({.a = a, .b = b, .c = c, .m = n, .n = n, .k = n});
}

// An all_reduce and, on the same PE of each rank, a composite.
Time beside_composite(PointContext& point, const Sizes& sizes, const Parts& parts) {
  return on_all_ranks(point, [&](RuntimeContext& torch, int) {
    const DPPolicy one = DPPolicy::on_one_pe();
    const Tensor x = summand(torch, sizes.all_reduce, one);
    const auto matrix = [&] {
      return torch.empty({sizes.gemm, sizes.gemm}, {.dtype = DType::f16, .dp = one});
    };
    const Tensor a = matrix();
    const Tensor b = matrix();
    const Tensor c = matrix();
    distributed::Work work;
    if (parts.large) {
      work = torch.distributed.all_reduce(x, ReduceOp::sum, {.async_op = true});
    }
    if (parts.other) torch.launch("multiply", multiply, a, b, c, sizes.gemm);
    if (work) work.wait();
  });
}

// The time from the first PE's begin to the last one's end, of the operation that runs on several
// SIPs.
Time time_of_collective(const EngineView& engine) {
  struct Span {
    Time begin = Time::max();
    Time end{0};
    std::set<int> sips;
  };
  std::map<std::uint64_t, Span> operations;
  for (const runtime::KernelResult& result : engine.results()) {
    Span& span = operations[result.operation];
    span.begin = std::min(span.begin, result.start);
    span.end = std::max(span.end, result.end);
    span.sips.insert(result.pe.sip);
  }
  Time time{0};
  for (const auto& [operation, span] : operations) {
    if (span.sips.size() > 1) time = span.end - span.begin;
  }
  return time;
}

void load_again_and_again(tl::Context& tl, tl::Pointer p, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) tl.load(p, {kLoadElements}, DType::f16);
}

// An all_reduce over all PEs, each of which loads 64 KiB after 64 KiB, as many as its scratch
// holds.
Time beside_loads(PointContext& point, const Sizes& sizes, const Parts& parts) {
  Time collective{0};
  const Time all = on_all_ranks(
      point,
      [&](RuntimeContext& torch, int) {
        const Topology& topology = torch.topology();
        const Tensor x = summand(torch, sizes.all_reduce);
        const Bytes pes = topology.cube_count() * topology.pe_count();
        const Tensor y = summand(torch, pes * kLoadElements * size_of(DType::f16));
        distributed::Work work;
        if (parts.large) {
          work = torch.distributed.all_reduce(x, ReduceOp::sum, {.async_op = true});
        }
        if (parts.other) torch.launch("stream", load_again_and_again, y, sizes.loads);
        if (work) work.wait();
      },
      [&](const EngineView& engine) { collective = time_of_collective(engine); });
  return parts.large ? collective : all;
}

// All_reduces of 1 KiB in a group of their own, one after the other; 4 MiB are under way meanwhile.
Time small_beside_large(PointContext& point, const Sizes& sizes, const Parts& parts) {
  Time slowest{0};
  const Time all = on_all_ranks(point, [&](RuntimeContext& torch, int) {
    const auto others = torch.distributed.new_group();
    const Tensor large = summand(torch, 2 * sizes.all_reduce);
    const Tensor small = summand(torch, 1024);
    distributed::Work work;
    if (parts.other) {
      work = torch.distributed.all_reduce(large, ReduceOp::sum, {.async_op = true});
    }
    const Time begin = torch.engine().now();
    for (int i = 0; parts.large && i < kSmallCount; ++i) {
      torch.distributed.all_reduce(small, ReduceOp::sum, {.group = others});
    }
    torch.ahbm.current_stream().synchronize();
    slowest = std::max(slowest, torch.engine().now() - begin);
    if (work) work.wait();
  });
  return parts.large ? slowest : all;
}

struct OverlapCase {
  std::string_view name;
  Time (*run)(PointContext&, const Sizes&, const Parts&);
  double most;         // of the ratio
  bool of_the_longer;  // the ratio is to the longer of both, else to the collective alone
};

constexpr std::array kCases = {
    OverlapCase{"all_reduce beside a composite", beside_composite, 1.03, true},
    OverlapCase{"all_reduce beside loads of 64 KiB", beside_loads, 1.5, false},
    OverlapCase{"8 all_reduces of 1 KiB beside a large one", small_beside_large, 1.3, false}};

Row simulate(PointContext& point, const OverlapCase& overlap, const Sizes& sizes) {
  const Time alone = overlap.run(point, sizes, {.large = true});
  const Time other = overlap.run(point, sizes, {.other = true});
  const Time together = overlap.run(point, sizes, {.large = true, .other = true});
  const Time limit = overlap.of_the_longer ? std::max(alone, other) : alone;
  return Row()
      .set("case", overlap.name)
      .set("alone_ns", to_ns(alone))
      .set("other_ns", to_ns(other))
      .set("together_ns", to_ns(together))
      .set("ratio", to_ns(together) / to_ns(limit))
      .set("goal", overlap.most);
}

void run_overlap(Bench& bench) {
  check_rank_is_sip(bench);
  const Settings& settings = bench.settings();
  const Topology::Communication& own = bench.topology().communication;
  bench.note("communication",
             fmt::format("packets of {} B, {} B of scratch", own.packet, own.scratch));
  const Sizes sizes{.all_reduce = settings.bytes("bytes", 1024, Bytes{1} << 30),
                    .gemm = settings.integer("gemm", 1, 16'384),
                    .loads = settings.integer("loads", 1, 1'000'000)};
  Sweep sweep(bench, "overlap");
  for (const OverlapCase& overlap : kCases) {
    sweep.add(std::string(overlap.name),
              [&overlap, sizes](PointContext& point) { return simulate(point, overlap, sizes); });
  }
  sweep.run();
}

}  // namespace

BenchInfo overlap_bench() {
  return {"overlap",
          "collectives beside kernels, loads and each other: together over alone",
          {{"bytes", "2Mi", "of the all_reduce; small ones run beside twice as much"},
           {"gemm", "1024", "side of the composite's matrices, f16 on one PE"},
           {"loads", "400", "of 64 KiB, by each PE"}},
          run_overlap,
          nullptr};
}

}  // namespace kernbench::benches::collectives
