// `algorithm: auto`: the fastest algorithm by the model.

#include "ccl/auto_choice.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "ccl/ahbm_backend.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::auto_choice_test {
namespace {

const ccl::Config kAuto = ccl::Config::parse("defaults: {algorithm: auto}");
const DPPolicy kPartial{.cube = Shard::partial, .pe = Shard::column_wise};

Time slowest(const std::vector<runtime::KernelResult>& kernels) {
  Time most{0};
  for (const runtime::KernelResult& kernel : kernels) {
    most = std::max(most, kernel.end - kernel.start);
  }
  return most;
}

// What every rank's all_reduce takes on the slowest PE.
Time time_by(const ccl::Config& config, const Topology& topology, const Shape& shape,
             const DPPolicy& dp) {
  return slowest(run({.topology = topology,
                      .dp = dp,
                      .shape = shape,
                      .config = config,
                      .summand = nullptr,
                      .data = false})
                     .kernels);
}

std::string_view chosen(const Topology& topology, std::int64_t n_elem,
                        const DPPolicy& dp = DPPolicy::replicated()) {
  return choose_algorithm(topology, kAuto, {n_elem}, {.dp = dp}).algorithm->name;
}

TEST_CASE("the chosen algorithm is the fastest of all, as each takes alone", "[ccl][auto]") {
  for (const SipTopology kind : kSipTopologies) {
    const Topology topology = round_topology(kind, 3, 2, 2, 2);
    for (const std::int64_t n : {1, 100, 3000, 100'000}) {
      CAPTURE(name_of(kind), n);
      const Shape shape{1, n};
      const ccl::Choice choice = choose_algorithm(topology, kAuto, shape, {.dp = kPartial});
      REQUIRE(choice.tried.size() == kAllReduceAlgorithms.size());
      CHECK(choice.algorithm == choice.tried.front().first);
      Time fastest = Time::max();
      for (const auto& [algorithm, time] : choice.tried) {
        CHECK(time == time_by(kAuto.with_algorithm(algorithm->name), topology, shape, kPartial));
        CHECK(time >= choice.tried.front().second);
        fastest = std::min(fastest, time);
      }
      CHECK(choice.tried.front().second == fastest);
      CHECK(time_by(kAuto, topology, shape, kPartial) == fastest);
    }
  }
}

TEST_CASE("of equally fast ones the first is taken, every time", "[ccl][auto][determinism]") {
  // One SIP: nothing is exchanged, and the frame is the same for all.
  const Topology alone = round_topology(SipTopology::ring_1d, 1, 1);
  const Topology ring = round_topology(SipTopology::ring_1d, 4, 1, 2, 1);
  CHECK(chosen(alone, 0) == "intercube_allreduce");
  const auto text = [](const Topology& topology) {
    return describe(choose_algorithm(topology, kAuto, {1, 5000}, {.dp = kPartial}));
  };
  CHECK(text(ring) == text(ring));
  CHECK_THAT(text(ring), Catch::Matches(R"(\w+ [\d.]+ ns(, \w+ [\d.]+ ns){4})"));
}

TEST_CASE("on a ring of 16 small tensors take the tree, large ones a ring used both ways",
          "[ccl][auto]") {
  const Topology ring = link_topology(SipTopology::ring_1d, 16);
  CHECK(chosen(ring, 1) == "tree_allreduce");
  CHECK(chosen(ring, 1024) == "tree_allreduce");
  // Both are reduce-scatter and all-gather with two colours there.
  CHECK((chosen(ring, 1 << 20) == "intercube_allreduce" ||
         chosen(ring, 1 << 20) == "bidirectional_ring_allreduce"));
}

TEST_CASE("on an odd mesh, whose ring is not closed, no ring is taken", "[ccl][auto]") {
  const Topology mesh = link_topology(SipTopology::mesh_2d_no_wrap, 3, 3);
  for (const std::int64_t n : {1, 1000, 100'000}) {
    CHECK((chosen(mesh, n) == "mesh_allreduce" || chosen(mesh, n) == "intercube_allreduce" ||
           chosen(mesh, n) == "tree_allreduce"));
  }
}

TEST_CASE("a choice leaves no trace in the run that asked for it", "[ccl][auto]") {
  AllReduce all_reduce{.topology = round_topology(SipTopology::torus_2d, 2, 2, 2, 1),
                       .dp = kPartial,
                       .shape = {1, 500},
                       .dtype = DType::f16,
                       .config = kAuto};
  const AllReduceResult by_auto = run(all_reduce);
  CHECK(wrong_sums(all_reduce, by_auto) == "");
  const ccl::Choice choice = choose_algorithm(all_reduce.topology, kAuto, all_reduce.shape,
                                              {.dtype = all_reduce.dtype, .dp = all_reduce.dp});
  all_reduce.config = kAuto.with_algorithm(choice.algorithm->name);
  const AllReduceResult by_name = run(all_reduce);
  CHECK(by_auto.took == by_name.took);
  CHECK(by_auto.events == by_name.events);
  CHECK(by_auto.fingerprint == by_name.fingerprint);
}

TEST_CASE("each size of tensor has a choice of its own", "[ccl][auto]") {
  const Topology ring = link_topology(SipTopology::ring_1d, 16);
  RuntimeContext torch(ring, {.ccl = kAuto, .data = false});
  ccl::register_ahbm_backend();
  torch.distributed.init_process_group("ahbm");
  std::map<std::int64_t, Time> times;
  for (const std::int64_t n : {16, 1 << 20, 16}) {
    torch.multiprocessing.spawn(
        [&](int rank) {
          torch.ahbm.set_device(rank);
          Tensor x = torch.empty({n}, {.dp = DPPolicy::replicated()});
          torch.distributed.all_reduce(x);
        },
        {}, 16);
    const auto [known, is_new] = times.emplace(n, torch.engine().critical_pe_exec());
    if (!is_new) CHECK(known->second == torch.engine().critical_pe_exec());
  }
  for (const auto& [n, time] : times) {
    CHECK(time ==
          choose_algorithm(ring, kAuto, {n}, {.dp = DPPolicy::replicated()}).tried.front().second);
  }
}

TEST_CASE("rank = PE: the fastest of all that PEs can do", "[ccl][auto][rank_pe]") {
  Topology topology = round_topology(SipTopology::ring_1d, 2, 1, 2, 1);
  topology.cube.pe_per_corner = 8;
  topology.cube.hbm.channels = 8;
  const auto config = kAuto.with_world_size(8);
  const auto choice = [&](std::int64_t n) {
    return choose_algorithm(topology, config, {1, 8 * n},
                            ccl::Layout(topology, config).placement({}));
  };
  CHECK(choice(1).tried.size() == kAllReduceAlgorithms.size());
  CHECK(choice(1).algorithm->name == "tree_allreduce");
  CHECK(choice(100'000).algorithm->name == "ring_allreduce");
}

TEST_CASE("where no algorithm can work the last one says why", "[ccl][auto][errors]") {
  const auto config =
      ccl::Config::parse("defaults: {algorithm: auto, participants: one_pe_per_sip}");
  CHECK_THAT(error_of<CollectiveError>(
                 [&] { choose_algorithm(round_topology(), config, {8}, {.name = "x"}); }),
             Catch::StartsWith("[KB-C013] no algorithm fits; the last one tried said: [KB-C013] "
                               "tensor 'x' (cube=replicate, pe=replicate) lies on 2 PEs: ccl.yaml "
                               "says participants: one_pe_per_sip"));
}

TEST_CASE("an algorithm that is no all_reduce is refused by all_reduce", "[ccl][auto][errors]") {
  ccl::register_ahbm_backend();
  RuntimeContext torch(round_topology(),
                       {.ccl = ccl::Config::parse("defaults: {algorithm: hello_send}")});
  torch.distributed.init_process_group("ahbm");
  CHECK_THAT(error_of<SpawnException>([&] {
               torch.multiprocessing.spawn(
                   [&](int rank) {
                     torch.ahbm.set_device(rank);
                     Tensor x = torch.ones({4});
                     torch.distributed.all_reduce(x);
                   },
                   {}, 2);
             }),
             Catch::Contains("rank 0: [KB-C012] all_reduce: the algorithm 'hello_send' that "
                             "ccl.yaml chooses is a shift, no all_reduce; choose another one for "
                             "torch.distributed"));
}

}  // namespace
}  // namespace kernbench::test::auto_choice_test
