// The critical path of programs whose answer is known.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "ccl/core/config.h"
#include "runtime/profiler/profile.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/core/cause_log.h"
#include "test/ccl/ring_with_array.h"
#include "test/support/small_topology.h"

namespace kernbench::test::critical_path_test {
namespace {

using runtime::CriticalPath;
using runtime::PathRow;
using sim::Cause;

constexpr Time kAlpha{500'000};
constexpr Time kByte{20};

// Runs a program on all ranks of a ring, and returns its profile.
using Program = std::function<void(RuntimeContext& torch, int rank)>;
runtime::Profile profile_on(const Topology& topology, std::string_view algorithm,
                            const Program& program) {
  const auto config = std::make_shared<const ccl::Config>(ccl::Config::parse(fmt::format(
      "defaults: {{algorithm: {}, depth: 64, buffer_kind: sram, slot: 16 MiB}}", algorithm)));
  RuntimeContext torch(topology, {.ccl = config, .profile = true});
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, topology.system.sip_count, [&](int rank) { program(torch, rank); });
  torch.distributed.destroy_process_group();
  return torch.engine().profile();
}

Time length_of(const CriticalPath& path) {
  return std::accumulate(path.by_cause.begin(), path.by_cause.end(), Time{0});
}

std::int64_t count_of(const CriticalPath& path, Cause cause) {
  return std::ranges::count(path.edges, cause, &sim::CauseLog::Edge::why);
}

Time compute_on(const CriticalPath& path, std::string_view pe) {
  const auto row = std::ranges::find_if(path.rows, [&](const PathRow& one) {
    return one.cause == Cause::compute && one.place == pe;
  });
  return row == path.rows.end() ? Time{0} : row->total;
}

TEST_CASE(
    "the critical path of a ring all_reduce is 2 (P - 1) hops: latency and bytes of its "
    "closed form",
    "[ccl][profile][path]") {
  for (const int p : {2, 3, 4, 8}) {
    constexpr std::int64_t kChunk = 1024;  // elements
    const runtime::Profile profile = profile_on(
        link_topology(SipTopology::ring_1d, p), "ring_allreduce", [&](RuntimeContext& torch, int) {
          torch.distributed.all_reduce(torch.zeros({p * kChunk}, {.dp = DPPolicy::on_one_pe()}));
        });
    CAPTURE(p);
    const int hops = 2 * (p - 1);
    CHECK(profile.path.of(Cause::latency) == hops * kAlpha);
    CHECK(profile.path.of(Cause::bytes) == hops * kChunk * 4 * kByte);
    CHECK(length_of(profile.path) == hops * (kAlpha + kChunk * 4 * kByte));
    CHECK(length_of(profile.path) == profile.duration());
    CHECK(count_of(profile.path, Cause::latency) == hops);
  }
}

TEST_CASE("one slow rank: its product is on the critical path, and the all_reduce behind it",
          "[ccl][profile][path]") {
  const Topology topology = ring_with_array(4);
  const auto all_reduce = [](RuntimeContext& torch) {
    torch.distributed.all_reduce(torch.zeros({4096}, {.dp = DPPolicy::on_one_pe()}));
  };
  const runtime::Profile alone = profile_on(topology, "ring_allreduce",
                                            [&](RuntimeContext& torch, int) { all_reduce(torch); });
  const runtime::Profile profile =
      profile_on(topology, "ring_allreduce", [&](RuntimeContext& torch, int rank) {
        const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
        torch.launch("multiply", multiply, x, std::int64_t{rank == 2 ? 512 : 64});
        all_reduce(torch);
      });
  const Time slow = time_of_product(512);
  CHECK(profile.duration() == slow + alone.duration());
  CHECK(compute_on(profile.path, "sip2.cube0.pe0") ==
        slow + compute_on(alone.path, "sip2.cube0.pe0"));
  CHECK(profile.path.rows.front().cause == Cause::compute);
  CHECK(profile.path.rows.front().place == "sip2.cube0.pe0");
  CHECK(length_of(profile.path) == profile.duration());
}

// Each of 4 columns of folds reads all of a, and each of 4 rows all of b: 128 KiB, at 1 GB/s; the
// array takes 16 * 94 ns.
TEST_CASE("a product whose operands come more slowly than it multiplies has the cause TCM",
          "[ccl][profile][path][tcm]") {
  Topology topology = ring_with_array(2);
  topology.pe.tcm.compute_bandwidth = Bandwidth{1'000'000'000};
  const runtime::Profile profile =
      profile_on(topology, "ring_allreduce", [&](RuntimeContext& torch, int) {
        torch.launch("multiply", multiply, torch.zeros({1}, {.dp = DPPolicy::on_one_pe()}),
                     std::int64_t{64});
      });
  const std::int64_t written = 64 * 64 * 4;  // by zeros, and by the product
  const Time port{(written + 8 * written) * 1000};
  CHECK(profile.path.of(Cause::tcm) == port);
  CHECK(profile.path.of(Cause::compute) == Time{0});
  CHECK(length_of(profile.path) == profile.duration());
  CHECK(profile.tcm == sim::ComputeTraffic{2 * 8 * written, 2 * 2 * written});
  CHECK_THAT(runtime::explain(profile),
             Catch::Contains("TCM ") &&
                 Catch::Contains("PE_GEMM and PE_MATH read 262.1 kB of TCM and wrote 65.5 kB"));
}

// The second one waits for the array until the first has its operands.
TEST_CASE("a wait for a unit that a port holds has the cause TCM", "[ccl][profile][path][tcm]") {
  Topology topology = ring_with_array(2);
  const auto path = [&] {
    return profile_on(topology, "ring_allreduce",
                      [&](RuntimeContext& torch, int) {
                        const auto two = [](tl::Context& tl, tl::Pointer) {
                          const tl::Tensor a = tl.zeros({64, 64}, DType::f32);
                          const tl::Tensor b = tl.dot(a, a);
                          const tl::Tensor c = tl.dot(a, a);
                        };
                        torch.launch("two", two, torch.zeros({1}, {.dp = DPPolicy::on_one_pe()}));
                      })
        .path;
  };
  CHECK(path().of(Cause::busy) == time_of_product(64));
  CHECK(path().of(Cause::tcm) == Time{0});
  topology.pe.tcm.compute_bandwidth = Bandwidth{1'000'000'000};
  const std::int64_t matrix = 64 * 64 * 4;
  CHECK(path().of(Cause::busy) == Time{0});
  CHECK(path().of(Cause::tcm) == Time{(matrix + 2 * 8 * matrix) * 1000});
}

TEST_CASE("sequences of uneven lengths: each step's path goes through its longest",
          "[ccl][profile][path]") {
  const std::vector<std::vector<std::int64_t>> lengths = {
      {64, 512, 128, 64}, {256, 64, 64, 64}, {64, 64, 64, 384}};
  const runtime::Profile profile =
      profile_on(ring_with_array(4), "ring_allreduce", [&](RuntimeContext& torch, int rank) {
        const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
        for (const std::vector<std::int64_t>& step : lengths) {
          torch.launch("step", multiply, x, step[static_cast<std::size_t>(rank)]);
          torch.distributed.barrier();
        }
      });
  CHECK(compute_on(profile.path, "sip1.cube0.pe0") == time_of_product(512));
  CHECK(compute_on(profile.path, "sip0.cube0.pe0") == time_of_product(256));
  CHECK(compute_on(profile.path, "sip3.cube0.pe0") == time_of_product(384));
  CHECK(compute_on(profile.path, "sip2.cube0.pe0") == Time{0});
  CHECK(length_of(profile.path) == profile.duration());
}

TEST_CASE("one heavy stage of a pipeline is what its path is made of", "[ccl][profile][path]") {
  constexpr int kMicrobatches = 4;
  const runtime::Profile profile =
      profile_on(ring_with_array(3), "ring_allreduce", [&](RuntimeContext& torch, int rank) {
        const Tensor x = torch.zeros({16}, {.dp = DPPolicy::on_one_pe()});
        for (int i = 0; i < kMicrobatches; ++i) {
          if (rank > 0) torch.distributed.recv(x, rank - 1);
          torch.launch("stage", multiply, x, std::int64_t{rank == 1 ? 512 : 64});
          if (rank < 2) torch.distributed.send(x, rank + 1);
        }
      });
  CHECK(compute_on(profile.path, "sip1.cube0.pe0") == kMicrobatches * time_of_product(512));
  // The other two stages are alike, and have a row together.
  CHECK(compute_on(profile.path, "sip0.cube0.pe0") == 2 * time_of_product(64));
  CHECK_THAT(runtime::explain(profile), Catch::Contains("sip0.cube0.pe0 and 1 alike"));
  CHECK(length_of(profile.path) == profile.duration());
}

TEST_CASE("where every overhead counts, each part of the path has a name", "[ccl][profile][path]") {
  Topology topology = round_topology(SipTopology::torus_2d, 2, 2, 2, 2);
  topology.pe.cpu_issue = Time{3'000};
  topology.pe.scheduler_dispatch = Time{5'000};
  topology.pe.dma_setup = Time{7'000};
  topology.pe.mmu_latency = Time{11'000};
  topology.pe.ipcq_latency = Time{13'000};
  topology.sip.io_cpu_dispatch = Time{17'000};
  topology.cube.m_cpu_dispatch = Time{19'000};
  for (const char* algorithm : {"intercube_allreduce", "ring_allreduce", "tree_allreduce"}) {
    const runtime::Profile profile =
        profile_on(topology, algorithm, [](RuntimeContext& torch, int) {
          torch.distributed.all_reduce(
              torch.zeros({40'000}, {.dp = {.cube = Shard::partial, .pe = Shard::column_wise}}));
        });
    CAPTURE(algorithm);
    CHECK(length_of(profile.path) == profile.duration());
    CHECK(profile.path.of(Cause::other) == Time{0});
    for (const Cause cause : {Cause::launch, Cause::issue, Cause::latency, Cause::bytes}) {
      CAPTURE(name_of(cause));
      CHECK(profile.path.of(cause) > Time{0});
    }
  }
}

TEST_CASE("recording causes changes neither times nor fingerprint", "[ccl][profile][path]") {
  std::vector<std::pair<Time, std::uint64_t>> outcomes;
  for (const bool is_profiled : {false, true}) {
    RuntimeContext torch(round_topology(SipTopology::torus_2d, 2, 2, 2, 1),
                         {.profile = is_profiled});
    torch.distributed.init_process_group("ahbm");
    run_on_devices(torch, 4, [&](int) {
      torch.distributed.all_reduce(torch.zeros({5'000}, {.dp = DPPolicy::on_one_pe()}));
    });
    outcomes.emplace_back(torch.engine().now(), torch.engine().fingerprint());
    torch.distributed.destroy_process_group();
  }
  CHECK(outcomes.front() == outcomes.back());
}

}  // namespace
}  // namespace kernbench::test::critical_path_test
