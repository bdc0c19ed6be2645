// A wrong worker gets an error at once that names the ranks, and never a hang.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "ccl/core/config.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::failures_test {
namespace {

struct WorldUnderTest {
  RuntimeContext torch;

  explicit WorldUnderTest(int ranks = 3, bool init = true)
      : torch(round_topology(SipTopology::ring_1d, ranks, 1)) {
    if (init) torch.distributed.init_process_group("ahbm");
  }

  Tensor tensor(int device, const Shape& shape = {4}, const TensorOptions& options = {}) {
    torch.ahbm.set_device(device);
    return torch.ones(shape, options);
  }
  void all_reduce(Tensor x) { torch.distributed.all_reduce(x); }
  void barrier() { torch.distributed.barrier(); }

  template <class Expected>
  std::string error_of(const std::function<void(int)>& body, int nprocs = 3) {
    return test::error_of<Expected>([&] { torch.multiprocessing.spawn(body, {}, nprocs); });
  }
  // The sum of ones over 3 ranks: the context is fit for use.
  void check_works() {
    std::vector<float> sums;
    run_ranks(torch, 3, [&](int rank) {
      Tensor x = tensor(rank);
      torch.distributed.all_reduce(x);
      sums.push_back(x.at({3}));
    });
    CHECK(sums == std::vector<float>{3, 3, 3});
  }
};

// The calls of a mismatch, each in a line whose number the text must name.
struct Call {
  std::string print;   // CollectiveFingerPrint(...)
  std::string called;  // all_reduce#0 (...)
};

std::string mismatch(const Call& first, const Call& second, std::string_view aspects,
                     std::uint_least32_t line) {
  return fmt::format(
      "[KB-C001] Detected mismatch between collectives on ranks. Rank 0 is running collective: "
      "CollectiveFingerPrint({}), but Rank 1 is running collective: CollectiveFingerPrint({}). "
      "Collectives differ in the following aspects: {}\n"
      "  rank 0 called {} at failures_test.cpp:{}\n"
      "  rank 1 called {} at failures_test.cpp:{}",
      first.print, second.print, aspects, first.called, line, second.called, line);
}

// A rank's call of all_reduce, with its description in errors.
Call all_reduce_of(std::string_view shape, std::string_view dtype, std::string_view placement) {
  return {fmt::format("SequenceNumber=0, OpType=ALLREDUCE, TensorShape={}, TensorDtypes={}, "
                      "ReduceOp=SUM, Placement=({})",
                      shape, dtype, placement),
          fmt::format("all_reduce#0 ({} {} SUM)", shape, dtype)};
}

TEST_CASE("tensors that differ are a mismatch, named by every aspect", "[failures]") {
  WorldUnderTest world;
  constexpr std::string_view kPlaced = "cube=replicate, pe=replicate";
  std::uint_least32_t line = 0;
  const auto error = [&](const Shape& shape, const TensorOptions& options) {
    return world.error_of<CollectiveMismatchError>([&](int rank) {
      Tensor x = rank == 1 ? world.tensor(rank, shape, options) : world.tensor(rank);
      line = std::source_location::current().line() + 1;
      world.torch.distributed.all_reduce(x);
    });
  };
  const Call usual = all_reduce_of("[4]", "Float", kPlaced);
  const std::string shape = error({1, 4}, {});
  CHECK(shape == mismatch(usual, all_reduce_of("[1, 4]", "Float", kPlaced),
                          "Tensor shapes: [4] vs [1, 4]", line));
  CHECK(error({4}, {.dtype = DType::bf16}) == mismatch(usual,
                                                       all_reduce_of("[4]", "BFloat16", kPlaced),
                                                       "Tensor dtypes: Float vs BFloat16", line));
  CHECK(error({4}, {.dp = {.pe = Shard::partial}}) ==
        mismatch(usual, all_reduce_of("[4]", "Float", "cube=replicate, pe=partial"),
                 "Placement: cube=replicate, pe=replicate vs cube=replicate, pe=partial", line));
  CHECK(
      error({5}, {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()}) ==
      mismatch(usual,
               all_reduce_of("[5]", "Half", "cube=replicate, pe=replicate, num_cubes=1, num_pes=1"),
               "Tensor shapes: [4] vs [5]; Tensor dtypes: Float vs Half; Placement: "
               "cube=replicate, pe=replicate vs cube=replicate, pe=replicate, num_cubes=1, "
               "num_pes=1",
               line));
  world.check_works();
}

TEST_CASE("different operations are a mismatch, also at a later call", "[failures]") {
  WorldUnderTest world;
  const std::string text = world.error_of<CollectiveMismatchError>([&](int rank) {
    world.all_reduce(world.tensor(rank));
    rank == 1 ? world.barrier() : world.all_reduce(world.tensor(rank));
  });
  CHECK(text.find("SequenceNumber=1, OpType=ALLREDUCE") != std::string::npos);
  CHECK(text.find("Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=1, "
                  "OpType=BARRIER)") != std::string::npos);
  // (The first to arrive is first in the text: rank 0, or 2, as the all_reduce before ended.)
  CHECK(text.find("Op type: ALLREDUCE vs BARRIER\n") != std::string::npos);
  world.check_works();
}

TEST_CASE("a mismatch is found when the second rank arrives, before it starts anything",
          "[failures]") {
  WorldUnderTest world;
  Time arrived{0};
  const std::string text = world.error_of<CollectiveMismatchError>([&](int rank) {
    if (rank == 2) return world.barrier();
    Tensor x = world.tensor(rank);
    x.copy_(RuntimeContext::tensor({1, 2, 3, 4}, {4}));
    arrived = world.torch.engine().now();
    world.all_reduce(x);
  });
  CHECK(text.find("Op type: BARRIER vs ALLREDUCE") != std::string::npos);
  CHECK(world.torch.engine().now() == arrived);
}

TEST_CASE("a group whose mismatch was caught is used no more, and the refused call is named",
          "[failures]") {
  WorldUnderTest world;
  std::uint_least32_t line = 0;
  const auto run = [&](bool calls_again) {
    return world.error_of<Error>([&](int rank) {
      const Tensor x = world.tensor(rank, {rank == 2 ? 5 : 4});
      line = std::source_location::current().line() + 2;
      try {
        world.torch.distributed.all_reduce(x);
      } catch (const CollectiveMismatchError&) {
        if (calls_again) world.all_reduce(x);
      }
    });
  };
  const std::string again = run(true);
  CHECK(again.find("[KB-C015] all_reduce#0 ([5] Float SUM) at failures_test.cpp:") !=
        std::string::npos);
  CHECK(again.find(fmt::format("rank 2 cannot use this group since its all_reduce#0 ([5] Float "
                               "SUM) at failures_test.cpp:{} was refused (KB-C001)",
                               line)) != std::string::npos);
  CHECK(run(false).starts_with(
      fmt::format("[KB-C002] rank 2 finished without calling all_reduce#0, which ranks 0 and 1 "
                  "called; its all_reduce#0 ([5] Float SUM) at failures_test.cpp:{} was refused "
                  "(KB-C001)\n",
                  line)));
  world.check_works();
}

TEST_CASE("a rank that calls again for ever, whatever it is told, ends the run", "[failures]") {
  WorldUnderTest world;
  const std::string text = world.error_of<DeadlockError>([&](int rank) {
    const Tensor x = world.tensor(rank, {rank == 2 ? 5 : 4});
    for (;;) {
      try {
        return world.all_reduce(x);
      } catch (const CollectiveError&) {
      }
    }
  });
  CHECK_THAT(text, test::Says("KB-D002", "rank 2", "10000", "0 ns"));
  world.check_works();
}

TEST_CASE("a rank that returns while others wait is named", "[failures]") {
  WorldUnderTest world;
  std::uint_least32_t line = 0;
  const auto error = [&](int leaver) {
    return world.error_of<DeadlockError>([&](int rank) {
      Tensor x = world.tensor(rank);
      line = std::source_location::current().line() + 1;
      if (rank != leaver) world.torch.distributed.all_reduce(x);
    });
  };
  const std::string last = error(2);
  const std::string call =
      fmt::format("all_reduce#0 ([4] Float SUM) at failures_test.cpp:{}", line);
  CHECK_THAT(last, Says("KB-C002", "rank 2 finished", "ranks 0 and 1", "rank 0 called " + call));
  CHECK_THAT(error(0),
             Says("KB-C002", "rank 0 finished", "rank 1 called " + call, "rank 2 has not called"));
  world.check_works();
}

TEST_CASE("who leaves early exits with 21, a deadlock with 20", "[failures]") {
  WorldUnderTest world;
  try {
    run_ranks(world.torch, 3, [&](int rank) {
      if (rank != 1) world.barrier();
    });
    FAIL("no error");
  } catch (const DeadlockError& error) {
    CHECK(error.exit_code() == ExitCode::collective_misuse);
  }
}

TEST_CASE("a rank that skips one of several collectives is named with the first it lacks",
          "[failures]") {
  WorldUnderTest world;
  CHECK_THAT(world.error_of<DeadlockError>([&](int rank) {
    Tensor x = world.tensor(rank);
    for (int i = 0; i < (rank == 1 ? 2 : 3); ++i) world.all_reduce(x);
  }),
             test::Says("KB-C002", "rank 1", "all_reduce#2"));
}

TEST_CASE("a rank that was never started is named", "[failures]") {
  WorldUnderTest world;
  CHECK_THAT(world.error_of<DeadlockError>([&](int) { world.barrier(); }, 2),
             test::Says("KB-C002", "rank 2", "barrier#0", "0"));
  world.check_works();
}

TEST_CASE("absent ranks are named too when each rank makes the group itself", "[failures]") {
  WorldUnderTest world(3, false);
  CHECK_THAT(world.error_of<DeadlockError>(
                 [&](int) {
                   world.torch.distributed.init_process_group("ahbm");
                   world.barrier();
                 },
                 2),
             test::Says("KB-C002", "rank 2", "barrier#0"));
  CHECK(world
            .error_of<DeadlockError>([&](int rank) {
              if (rank == 0) return;  // before anybody has made the group
              world.torch.distributed.init_process_group("ahbm");
              world.barrier();
            })
            .starts_with("[KB-C002] rank 0 finished without calling barrier#0"));
}

TEST_CASE("two ranks with tensors on one device are told to call set_device", "[failures]") {
  WorldUnderTest world;
  const std::string text = world.error_of<SpawnException>(
      [&](int rank) { world.all_reduce(world.tensor(rank == 2 ? 1 : rank)); });
  CHECK(
      text.find("rank 2: [KB-C011] ranks 1 and 2 both brought a tensor on device 1 to all_reduce; "
                "call torch.ahbm.set_device(rank) before making tensors\n") != std::string::npos);
  world.check_works();
}

TEST_CASE("a worker that throws is the cause, not those that waited for it", "[failures]") {
  WorldUnderTest world;
  const std::string text = world.error_of<SpawnException>([&](int rank) {
    Tensor x = world.tensor(rank);
    if (rank == 1) {
      x.copy_(RuntimeContext::tensor({1, 2, 3, 4}, {4}));
      throw std::runtime_error("boom on one");
    }
    world.torch.distributed.all_reduce(x);
  });
  CHECK_THAT(text, test::Says("KB-R001", "1", "runtime_error"));
  CHECK(text.find("\n  rank 0 waited for all_reduce#0 ([4] Float SUM) at failures_test.cpp:") !=
        std::string::npos);
  CHECK(text.find("\n  rank 2 waited for all_reduce#0 ([4] Float SUM) at failures_test.cpp:") !=
        std::string::npos);
  world.check_works();
}

TEST_CASE("a failure in the middle of a collective leaves full queues and a context that works",
          "[failures]") {
  WorldUnderTest world;
  for (int i = 0; i < 3; ++i) {
    const std::string text = world.error_of<SpawnException>([&](int rank) {
      Tensor x = world.tensor(rank, {20'000});
      if (rank == 2) {
        for (int k = 0; k < 4 + i; ++k) {
          world.torch.zeros({1}).copy_(RuntimeContext::tensor({1}, {1}));
        }
        throw std::runtime_error("boom");  // the others' kernels run, and wait for its messages
      }
      world.all_reduce(x);
    });
    CHECK(text.starts_with("[KB-R001] -- Process 2"));
    world.check_works();
  }
}

TEST_CASE("a kernel of one's own that waits for a rank that does not send is a deadlock",
          "[failures]") {
  WorldUnderTest world;
  int line = 0;
  const std::string text = world.error_of<DeadlockError>([&](int rank) {
    const Tensor x = world.tensor(rank, {4}, {.dp = DPPolicy::on_one_pe()});
    const auto shift = [](tl::Context& tl, tl::Pointer p) {
      const tl::Tensor got = tl.recv(tl::Direction::global_west, {4}, DType::f32);
      tl.send(tl::Direction::global_east, tl.load(p, {4}, DType::f32));
    };
    line = __LINE__ + 1;
    world.torch.launch("shift", shift, x);
  });
  std::string expected = "[KB-D001] deadlock: 3 ranks, 3 queued operations and 3 kernels blocked, ";
  expected += "no event pending at t=217.24 ns";
  for (const char* waits :
       {"\n  rank {0} waits for kernel 'shift' at failures_test.cpp:{2} on stream {0} of device "
        "{0} "
        "since t=0 ns",
        "\n  rank {0} (queued) waits for kernel 'shift' on 1 PEs of sip{0} since t=206.4 ns",
        "\n  kernel 'shift' on sip{0}.cube0.pe0 waits for a message of ipcq sip{1}.cube0.pe0 "
        "global_east -> sip{0}.cube0.pe0 global_west (16 B; empty) since t=217.24 ns"}) {
    for (int sip = 0; sip < 3; ++sip) {
      expected += fmt::format(fmt::runtime(waits), sip, (sip + 2) % 3, line);
    }
  }
  CHECK(text == expected +
                    "\n  wait-for cycle: sip0.cube0.pe0 -> sip2.cube0.pe0 -> sip1.cube0.pe0 "
                    "-> sip0.cube0.pe0");
  world.check_works();
}

TEST_CASE("queues that do not fit into TCM are refused when the group is made", "[failures]") {
  RuntimeContext torch(round_topology(),
                       {.ccl = ccl::Config::parse("defaults: {depth: 1024, slot: 1 MiB}")});
  CHECK_THAT(test::error_of<ConfigError>([&] { torch.distributed.init_process_group("ahbm"); }),
             test::Says("KB-Y044", "sip1.cube0.pe0", "1024", "1048576 B", "1073741824 B",
                        "2097152 B", "buffer_kind"));
  CHECK_FALSE(torch.distributed.is_initialized());
  CHECK(simulation_of(torch).machine().channels().empty());
}

TEST_CASE("settings of another backend are refused", "[failures]") {
  struct OtherConfig : distributed::BackendConfig {};
  RuntimeContext torch(round_topology(), {.ccl = std::make_shared<const OtherConfig>()});
  CHECK_THAT(test::error_of<CollectiveError>([&] { torch.distributed.init_process_group("ahbm"); }),
             test::Says("KB-R002", "backend", "'ahbm'", "settings"));
  CHECK_FALSE(torch.distributed.is_initialized());
}

TEST_CASE("a group that is refused leaves no queues behind", "[failures]") {
  WorldUnderTest world(3, false);
  auto& distributed = world.torch.distributed;
  const auto& machine = simulation_of(world.torch).machine();
  for (const kernbench::distributed::InitOptions& wrong :
       {kernbench::distributed::InitOptions{.world_size = 4}, {.rank = 3}, {.rank = -2}}) {
    CHECK_FALSE(test::error_of<CollectiveError>([&] {
                  distributed.init_process_group("ahbm", wrong);
                }).empty());
    CHECK(machine.channels().empty());
  }
  distributed.init_process_group("ahbm");
  CHECK_FALSE(machine.channels().empty());
  world.check_works();
}

TEST_CASE("a collective ends at the same instant however early other ranks came",
          "[failures][timing]") {
  const auto end_of = [](int late_copies) {
    WorldUnderTest world;
    Time begun{0};
    run_ranks(world.torch, 3, [&](int rank) {
      Tensor x = world.tensor(rank, {4}, {.dp = DPPolicy::on_one_pe()});
      for (int i = 0; rank == 1 && i < late_copies; ++i) {
        x.copy_(RuntimeContext::tensor({1, 1, 1, 1}, {4}));
      }
      if (rank == 1) begun = world.torch.engine().now();
      world.all_reduce(x);
    });
    return world.torch.engine().now() - begun;
  };
  // The others' kernels wait for it: what is left is a whole all_reduce but for their own sends.
  CHECK(end_of(5) == end_of(9));
  CHECK(end_of(5) <= end_of(0));
}

}  // namespace
}  // namespace kernbench::test::failures_test
