// What faults do to collectives: closed forms of VERIFICATION 3.3 where only links cost time, and
// what each other fault leaves behind.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "sim_engine/components/machine_faults.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/kernels_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::faults_test {
namespace {

constexpr Time kAlpha{500'000};
constexpr Time kByte{20};  // 50 GB/s

Topology with_faults(Topology topology, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    ParsedFault parsed = parse_fault(text);
    CHECK(parsed.wrong == "");
    topology.faults.push_back(std::move(parsed.fault));
  }
  return topology;
}

// f32, on one PE of each SIP.
Time ring_time(const Topology& topology, Bytes bytes) {
  const ccl::Config deep = ccl::Config::parse(
      "defaults: {algorithm: ring_allreduce, depth: 64, buffer_kind: sram, slot: 16 MiB}");
  return KernelsUnderTest(topology, DPPolicy::on_one_pe(), deep).run(bytes / 4);
}

// One of the P links of a ring is k times slower: its bytes bound the time, or what it adds to the
// first chunk that comes over it and to the last.
Time slow_ring(int p, Bytes chunk, int k) {
  const Time alone = 2 * (p - 1) * (kAlpha + chunk * kByte);
  const int passes = p == 2 ? 1 : 2;
  return std::max(2 * (p - 1) * k * chunk * kByte + kAlpha,
                  alone + passes * (k - 1) * chunk * kByte);
}

TEST_CASE("a ring with one slow link takes max(2 (P-1)/P n k beta + alpha, T0 + 2 n/P (k-1) beta)",
          "[ccl][timing][faults]") {
  for (int p = 2; p <= 16; ++p) {
    for (const Bytes chunk : {4, 1000, 65536}) {
      for (const int k : {2, 4}) {
        const int slow = p == 2 ? 0 : k % p;  // of two SIPs, SIP 1's neighbour is to the west
        CAPTURE(p, chunk, k, slow);
        const std::string fault = fmt::format("link=sip{}.link.east bandwidth=x{}", slow, 1.0 / k);
        CHECK(ring_time(with_faults(link_topology(SipTopology::ring_1d, p), {fault}), p * chunk) ==
              slow_ring(p, chunk, k));
      }
    }
  }
}

TEST_CASE("the worked figures of one slow link", "[ccl][timing][faults]") {
  const auto took = [](int p, const std::vector<std::string>& faults) {
    return ring_time(with_faults(link_topology(SipTopology::ring_1d, p), faults), 1 << 20);
  };
  CHECK(took(8, {}) == Time{43'700'160});
  CHECK(took(8, {"link=sip3.link.east bandwidth=x0.5"}) == Time{73'900'320});
  CHECK(took(8, {"link=sip3.link.east bandwidth=x0.25"}) == Time{147'300'640});
  CHECK(took(32, {}) == Time{71'632'320});
  CHECK(took(32, {"link=sip3.link.east bandwidth=x0.5"}) == Time{81'764'640});
}

// The time from the first call to the last return.
Time all_reduce_time(const Topology& topology, std::int64_t count) {
  RuntimeContext torch(topology, {.data = false});
  torch.distributed.init_process_group("ahbm");
  run_ranks(torch, topology.system.sip_count, [&](int rank) {
    torch.ahbm.set_device(rank);
    torch.distributed.all_reduce(torch.ones({count}, {.dp = DPPolicy::on_one_pe()}));
    torch.ahbm.synchronize();
  });
  return torch.engine().now();
}

TEST_CASE("with one rank late by d everything ends d later, whichever it is",
          "[ccl][timing][faults]") {
  const Topology ring = link_topology(SipTopology::ring_1d, 6);
  const Time alone = all_reduce_time(ring, 6'000);
  CHECK(alone > Time{0});
  for (int rank = 0; rank < 6; ++rank) {
    const Topology late = with_faults(ring, {fmt::format("rank={} start=+50us", rank)});
    CHECK(all_reduce_time(late, 6'000) == alone + Time{50'000'000});
  }
}

constexpr int kSteps = 1000;

// Ranks compute for 1 us, a cycle for each element, and then meet: the time of a step in ns.
double step_time(int ranks, const std::vector<std::string>& faults) {
  Topology topology = with_faults(link_topology(SipTopology::ring_1d, ranks), faults);
  topology.pe.math_lanes = 1;
  topology.pe.math_clock = Frequency{1'000'000'000};
  RuntimeContext torch(topology, {.data = false});
  torch.distributed.init_process_group("ahbm");
  run_ranks(torch, ranks, [&](int rank) {
    torch.ahbm.set_device(rank);
    const Tensor x = torch.ones({1000}, {.dp = DPPolicy::on_one_pe()});
    const auto compute = [](tl::Context& tl, tl::Pointer p) {
      const tl::Tensor a = tl.load(p, {1000}, DType::f32);
      tl.store(p, a + a);
    };
    for (int step = 0; step < kSteps; ++step) {
      torch.launch("step", compute, x);
      torch.ahbm.synchronize();
      torch.distributed.barrier();
    }
  });
  return to_ns(torch.engine().now()) / kSteps;
}

// They wait for the slowest of them, and the mean of the largest of W normal numbers is E_W.
TEST_CASE("ranks with normal noise take sigma E_W longer", "[ccl][timing][faults]") {
  struct Largest {
    int ranks;
    double mean;
    double variance;
  };
  const auto [ranks, mean, variance] = GENERATE(Largest{2, .565, .682}, Largest{4, 1.030, .492},
                                                Largest{8, 1.424, .373}, Largest{16, 1.766, .295});
  constexpr double kSigma = 100;  // ns
  const double longer = step_time(ranks, {"compute=normal sigma=0.1 seed=11"}) -
                        step_time(ranks, {"compute=normal sigma=0.000001"});
  const double standard_error = kSigma * std::sqrt(variance / kSteps);
  CAPTURE(ranks, longer, standard_error);
  CHECK(std::abs(longer - kSigma * mean) < 4 * standard_error);
}

// Every kind of fault that only takes time.
const std::vector<std::string> kTimingFaults = {
    "link=sip0.link.east bandwidth=x0.25",
    "link=sip1.link.west bandwidth=x0.5 from=1us to=5us",
    "pe=sip1.cube0.pe1 clock=x0.3",
    "rank=2 clock=x0.8",
    "rank=1 start=+7us",
    "compute=lognormal sigma=0.5 seed=3"};

TEST_CASE("a fault of time changes no element", "[ccl][faults]") {
  const std::string_view algorithm = GENERATE(from_range(kAllReduceAlgorithms));
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Topology machine = round_topology(SipTopology::ring_1d, 4, 1, 2, 2);
  AllReduce all_reduce{.topology = machine,
                       .dp = {.cube = Shard::column_wise, .pe = Shard::column_wise},
                       .shape = {5, 77},
                       .dtype = dtype,
                       .config = ccl::Config().with_algorithm(algorithm),
                       .summand = [](int rank, int part, std::int64_t position) {
                         return 0.1F * static_cast<float>(rank + 1) +
                                1e-3F * static_cast<float>(part + position % 13);
                       }};
  const AllReduceResult alone = run(all_reduce);
  all_reduce.topology = with_faults(machine, kTimingFaults);
  const AllReduceResult slowed = run(all_reduce);
  CHECK(slowed.took > alone.took);
  CHECK(slowed.elements == alone.elements);
  CHECK(run(all_reduce).fingerprint == slowed.fingerprint);
}

std::string failure_of(const std::string& fault) {
  return error_of<DeadlockError>([&] {
    run({.topology = with_faults(round_topology(SipTopology::ring_1d, 4), {fault}),
         .shape = {4096}});
  });
}

TEST_CASE("a dead link, a lost message and a rank's death are deadlocks that name them",
          "[ccl][faults][errors]") {
  CHECK_THAT(failure_of("link=sip0.link.east dead=1us"),
             Says("KB-D001", "link=sip0.link.east dead=1us", "from sip0 to sip1 are lost"));
  CHECK_THAT(failure_of("rank=2 drop=3"), Says("KB-D001", "rank=2 drop=3: once, at", "from sip2"));
  CHECK_THAT(failure_of("rank=3 dies=1ns"),
             Says("KB-D001", "rank 3 does nothing from then on", "it died at t=1 ns"));
}

const std::vector<FaultEffect>& effects_of(RuntimeContext& torch) {
  return simulation_of(torch).machine().faults()->effects();
}

// Ones from two ranks, of which rank 1's second message flips a bit of f32 2^30: from 1 to 2^129.
TEST_CASE("a flipped bit of a message arrives with the sum", "[ccl][faults]") {
  const std::string fault = "rank=1 flip=22 element=3 message=1 collective=2";
  RuntimeContext torch(with_faults(link_topology(SipTopology::ring_1d, 2), {fault}));
  torch.distributed.init_process_group("ahbm");
  std::vector<std::vector<float>> sums(2);
  run_ranks(torch, 2, [&](int rank) {
    torch.ahbm.set_device(rank);
    for (int call = 0; call < 3; ++call) {
      Tensor x = torch.ones({8}, {.dp = DPPolicy::on_one_pe()});
      torch.distributed.all_reduce(x);
      for (const float element : x.to_vector()) {
        sums[static_cast<std::size_t>(rank)].push_back(element);
      }
    }
  });
  const FaultEffect& effect = effects_of(torch).front();
  CHECK(effect.count == 1);
  CHECK(effect.is_flip);
  CHECK_THAT(effect.detail, Catch::Contains("of f32 from sip1.cube0.pe0 to sip0.cube0.pe0"));
  int flipped = 0;
  for (std::size_t i = 0; i < sums[0].size(); ++i) {
    CAPTURE(i);
    // Bit 22 is the half of a number from 1 to 2.
    const bool is_flipped = sums[0][i] == 2.5F || sums[1][i] == 2.5F;
    flipped += is_flipped ? 1 : 0;
    CHECK((is_flipped || (sums[0][i] == 2 && sums[1][i] == 2)));
    CHECK((!is_flipped || (i >= 8 && i < 16)));
  }
  CHECK(flipped == 1);
}

TEST_CASE("a flipped bit of a kernel's result is in memory", "[ccl][faults]") {
  struct Flip {
    DType dtype;
    int bit;
    float gives;
  };
  const auto [dtype, bit, gives] =
      GENERATE(Flip{DType::f32, 31, -2}, Flip{DType::f32, 22, 3}, Flip{DType::f16, 15, -2},
               Flip{DType::bf16, 6, 3}, Flip{DType::i32, 4, 18});
  const std::size_t element = GENERATE(0, 1, 5, 7);
  RuntimeContext torch(with_faults(
      free_topology(), {fmt::format("rank=0 flip={} element={} result=2", bit, element)}));
  const auto twice = [](tl::Context& tl, tl::Pointer p) {
    const tl::Tensor a = tl.load(p, {8}, p.dtype());
    tl.store(p, a + a);
  };
  std::vector<Tensor> results;
  for (int launch = 0; launch < 3; ++launch) {
    results.push_back(torch.ones({8}, {.dtype = dtype, .dp = DPPolicy::on_one_pe()}));
    torch.launch("twice", twice, results.back());
  }
  const std::vector<float> fine(8, 2);
  std::vector<float> flipped = fine;
  flipped[element] = gives;
  CHECK(results[0].to_vector() == fine);
  CHECK(results[1].to_vector() == flipped);
  CHECK(results[2].to_vector() == fine);
}

TEST_CASE("a flip that there is no bit or element for says so", "[ccl][faults]") {
  const auto [fault, data, says] = GENERATE(table<std::string, bool, std::string>(
      {{"rank=0 flip=40 element=1 result=1", true, "8 elements of 32 bits"},
       {"rank=0 flip=4 element=8 result=1", true, "8 elements of 32 bits"},
       {"rank=0 flip=4 element=1 result=1", false, "the run computes no values"},
       {"rank=0 flip=4 element=1 result=2", true, "did nothing"}}));
  RuntimeContext torch(with_faults(free_topology(), {fault}), {.data = data});
  const Tensor x = torch.ones({8}, {.dp = DPPolicy::on_one_pe()});
  torch.launch(
      "copy", [](tl::Context& tl, tl::Pointer p) { tl.store(p, tl.load(p, {8}, p.dtype())); }, x);
  torch.ahbm.synchronize();
  CHECK(effects_of(torch).front().count == 0);
  CHECK_THAT(describe(effects_of(torch).front()), Catch::Contains(says));
}

}  // namespace
}  // namespace kernbench::test::faults_test
