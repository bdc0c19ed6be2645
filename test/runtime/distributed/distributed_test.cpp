// The state of torch.distributed: who may call what, when, with PyTorch's texts.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "runtime/distributed/local_backend.h"
#include "runtime/tl/tl.h"
#include "runtime/torch/runtime_context.h"
#include "test/runtime/distributed/meeting_backend.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::distributed_test {
namespace {

const std::string kNotInitialized =
    "[KB-R002] Default process group has not been initialized, please make sure to call "
    "init_process_group.";
const std::string kTwice = "[KB-R002] trying to initialize the default process group twice!";
const std::string kNoGroup = "[KB-R002] Process group cannot be None";

struct WorldUnderTest {
  RuntimeContext torch;

  explicit WorldUnderTest(int ranks = 3) : torch(round_topology(SipTopology::ring_1d, ranks, 1)) {
    MeetingBackend::register_it();
  }

  template <class Action>
  static std::string misuse_of(Action action) {
    return error_of<CollectiveError>(action);
  }
  void spawn(const std::function<void(int)>& body, int nprocs = 3) {
    torch.multiprocessing.spawn(body, {}, nprocs);
  }
  Tensor tensor(int rank, const Shape& shape = {4}) {
    torch.ahbm.set_device(rank);
    return torch.ones(shape, {.dp = DPPolicy::on_one_pe()});
  }
  // A copy from the host of so many elements takes 255 ns and 0.4 ns for each: to pass the time.
  void pass_time(std::int64_t elements) {
    torch.zeros({elements}, {.dp = DPPolicy::on_one_pe()})
        .copy_(RuntimeContext::tensor(std::vector<float>(static_cast<std::size_t>(elements)),
                                      {elements}));
  }
};

TEST_CASE("nothing but init works before init_process_group", "[distributed]") {
  WorldUnderTest world;
  auto& distributed = world.torch.distributed;
  Tensor x = world.tensor(0);
  CHECK_FALSE(distributed.is_initialized());
  CHECK(distributed.is_available());
  CHECK(world.misuse_of([&] { distributed.get_rank(); }) == kNotInitialized);
  CHECK(world.misuse_of([&] { distributed.get_world_size(); }) == kNotInitialized);
  CHECK(world.misuse_of([&] { distributed.get_backend(); }) == kNotInitialized);
  CHECK(world.misuse_of([&] { distributed.all_reduce(x); }) == kNotInitialized);
  CHECK(world.misuse_of([&] { distributed.barrier(); }) == kNotInitialized);
  CHECK(world.misuse_of([&] { distributed.destroy_process_group(); }) == kNoGroup);
}

TEST_CASE("a group is made, used and destroyed, and can be made again", "[distributed]") {
  WorldUnderTest world;
  auto& distributed = world.torch.distributed;
  for (int i = 0; i < 3; ++i) {
    distributed.init_process_group("meeting");
    CHECK(distributed.is_initialized());
    CHECK(distributed.get_world_size() == 3);
    CHECK(distributed.get_rank() == 0);  // a single driver
    CHECK(distributed.get_backend() == "meeting");
    CHECK(world.misuse_of([&] { distributed.init_process_group("meeting"); }) == kTwice);
    distributed.destroy_process_group();
    CHECK_FALSE(distributed.is_initialized());
    CHECK(world.misuse_of([&] { distributed.destroy_process_group(); }) == kNoGroup);
    CHECK(world.misuse_of([&] { distributed.get_rank(); }) == kNotInitialized);
  }
}

TEST_CASE("wrong arguments of init_process_group are refused and leave no group", "[distributed]") {
  WorldUnderTest world;
  auto& distributed = world.torch.distributed;
  CHECK(world.misuse_of([&] { distributed.init_process_group("nccl"); })
            .starts_with("[KB-R002] Unknown c10d backend type nccl; there are: "));
  CHECK_THAT(world.misuse_of([&] { distributed.init_process_group("meeting", {.world_size = 4}); }),
             test::Says("KB-R002", "world_size", "4", "1", "'round'", "3"));
  CHECK_THAT(world.misuse_of([&] { distributed.init_process_group("meeting", {.rank = 3}); }),
             test::Says("KB-R002", "3", "world_size"));
  CHECK_THAT(world.misuse_of([&] { distributed.init_process_group("meeting", {.rank = -2}); }),
             test::Says("KB-R002", "process", "where", "2", "negative"));
  CHECK_THAT(world.misuse_of(
                 [&] { distributed.init_process_group("meeting", {.init_method = "foo://host"}); }),
             test::Says("KB-R002", "rendezvous", "handler", "there"));
  CHECK_FALSE(distributed.is_initialized());
  distributed.init_process_group(
      "meeting", {.world_size = 3, .rank = 0, .init_method = "tcp://localhost:29500"});
  CHECK(distributed.is_initialized());
}

TEST_CASE("every rank has its own number, the group's size and its backend", "[distributed]") {
  WorldUnderTest world;
  world.torch.distributed.init_process_group("meeting");
  std::vector<std::string> seen;
  world.spawn([&](int rank) {
    seen.push_back(fmt::format("{} is {} of {} on {}", rank, world.torch.distributed.get_rank(),
                               world.torch.distributed.get_world_size(),
                               world.torch.distributed.get_backend()));
  });
  CHECK(seen == std::vector<std::string>{"0 is 0 of 3 on meeting", "1 is 1 of 3 on meeting",
                                         "2 is 2 of 3 on meeting"});
}

TEST_CASE("every rank may make the group itself, as in a DDP script", "[distributed]") {
  WorldUnderTest world;
  auto& distributed = world.torch.distributed;
  for (int i = 0; i < 2; ++i) {
    int done = 0;
    world.spawn([&](int rank) {
      CHECK_FALSE(distributed.is_initialized());
      CHECK(world.misuse_of([&] { distributed.barrier(); }) == kNotInitialized);
      distributed.init_process_group("meeting", {.world_size = 3, .rank = rank});
      CHECK(distributed.is_initialized());
      CHECK(world.misuse_of([&] { distributed.init_process_group("meeting"); }) == kTwice);
      Tensor x = world.tensor(rank);
      distributed.all_reduce(x);
      distributed.destroy_process_group();
      CHECK_FALSE(distributed.is_initialized());
      CHECK(world.misuse_of([&] { distributed.destroy_process_group(); }) == kNoGroup);
      ++done;
    });
    CHECK(done == 3);
    CHECK_FALSE(distributed.is_initialized());
  }
}

TEST_CASE("a rank cannot make the group as another rank", "[distributed]") {
  WorldUnderTest world;
  std::string text;
  world.spawn(
      [&](int) {
        text = world.misuse_of(
            [&] { world.torch.distributed.init_process_group("meeting", {.rank = 1}); });
      },
      1);
  CHECK_THAT(text, test::Says("KB-R002", "init_process_group", "1", "0"));
}

TEST_CASE("a group that was made before spawn is destroyed after it, by no rank", "[distributed]") {
  WorldUnderTest world;
  auto& distributed = world.torch.distributed;
  distributed.init_process_group("meeting");
  std::string text;
  world.spawn([&](int rank) {
    if (rank == 1) text = world.misuse_of([&] { distributed.destroy_process_group(); });
    CHECK(world.misuse_of([&] { distributed.init_process_group("meeting"); }) == kTwice);
    distributed.barrier();
  });
  CHECK_THAT(text, test::Says("KB-R002", "process", "before", "destroyed"));
  distributed.destroy_process_group();
}

TEST_CASE("a rank may destroy the group that it made while others still use theirs",
          "[distributed]") {
  WorldUnderTest world;
  auto& distributed = world.torch.distributed;
  std::vector<int> order;
  world.spawn([&](int rank) {
    distributed.init_process_group("meeting");
    distributed.barrier();
    world.torch.ahbm.set_device(rank);
    if (rank > 0) world.pass_time(100 * rank);
    CHECK(distributed.get_world_size() == 3);
    distributed.destroy_process_group();
    order.push_back(rank);
  });
  CHECK(order == std::vector<int>{0, 1, 2});
}

TEST_CASE("a barrier lets nobody through before the last has come", "[distributed][timing]") {
  WorldUnderTest world;
  world.torch.distributed.init_process_group("meeting");
  std::vector<Time> after(3);
  world.spawn([&](int rank) {
    world.pass_time(1000 * (rank + 1));
    world.torch.distributed.barrier();
    after[static_cast<std::size_t>(rank)] = world.torch.engine().now();
  });
  // Device 0 has one host link: the copies follow each other, 4000, 8000 and 12000 B at 10 GB/s.
  CHECK(after == std::vector<Time>(3, Time{255'000 + 2'400'000}));
}

TEST_CASE("a host tensor cannot take part", "[distributed]") {
  WorldUnderTest world;
  world.torch.distributed.init_process_group("meeting");
  Tensor host = RuntimeContext::tensor({1}, {1});
  CHECK_THAT(error_of<DeviceError>([&] { world.torch.distributed.all_reduce(host); }),
             test::Says("KB-M019", "all_reduce", "tensor", "cannot", "zeros"));
  Tensor none;
  CHECK_THAT(error_of<DeviceError>([&] { world.torch.distributed.all_reduce(none); }),
             test::Says("KB-M001", "all_reduce", "not defined"));
}

TEST_CASE("a rank beyond the group is no member of it", "[distributed]") {
  WorldUnderTest world;
  world.torch.distributed.init_process_group("meeting");
  std::vector<std::string> texts;
  world.spawn(
      [&](int rank) {
        const std::string text = world.misuse_of([&] { world.torch.distributed.barrier(); });
        if (rank == 3) texts.push_back(text);
      },
      4);
  REQUIRE(texts.size() == 1);
  CHECK_THAT(texts.front(), test::Says("KB-C006", "rank 3", "not a member", "3 ranks"));
}

TEST_CASE("a collective inside a kernel is refused", "[distributed]") {
  WorldUnderTest world;
  world.torch.distributed.init_process_group("meeting");
  Tensor x = world.tensor(0);
  const auto in_kernel = [&](const std::function<void()>& action) {
    return world.misuse_of([&] {
      world.torch.launch(
          "k", [&](tl::Context&, tl::Pointer) { action(); }, x);
    });
  };
  CHECK_THAT(in_kernel([&] { world.torch.distributed.all_reduce(x); }),
             test::Says("KB-R012", "all_reduce", "kernel 'k'"));
  CHECK_THAT(in_kernel([&] { world.torch.distributed.barrier(); }),
             test::Says("KB-R012", "barrier", "kernel 'k'"));
}

TEST_CASE("one rank alone is a world", "[distributed]") {
  WorldUnderTest world(1);
  world.torch.distributed.init_process_group("meeting");
  CHECK(world.torch.distributed.get_world_size() == 1);
  world.torch.distributed.barrier();  // the single driver is all there is
  std::vector<int> passed;
  world.spawn(
      [&](int rank) {
        world.torch.distributed.barrier();
        passed.push_back(rank);
      },
      1);
  CHECK(passed == std::vector<int>{0});
}

TEST_CASE("sequence numbers begin anew with each spawn", "[distributed]") {
  WorldUnderTest world;
  world.torch.distributed.init_process_group("meeting");
  for (int i = 0; i < 2; ++i) {
    const std::string text = error_of<DeadlockError>([&] {
      world.spawn([&](int rank) {
        world.torch.distributed.barrier();
        if (rank != 0) world.torch.distributed.barrier();
      });
    });
    // Rank 2 came last to the first barrier, so it goes on first.
    CHECK_THAT(text, test::Says("KB-C002", "0", "barrier#1", "2"));
  }
}

TEST_CASE("ranks that make the group themselves and return leave none behind", "[distributed]") {
  WorldUnderTest world;
  distributed::register_local_backend();
  for (const char* backend : {"meeting", "local"}) {
    world.spawn([&](int) {
      CHECK_FALSE(world.torch.distributed.is_initialized());
      world.torch.distributed.init_process_group(backend);
      world.torch.distributed.barrier();
      CHECK(world.torch.distributed.get_backend() == backend);
    });
    CHECK_FALSE(world.torch.distributed.is_initialized());
  }
  world.torch.distributed.init_process_group("meeting");
  world.spawn([&](int) { world.torch.distributed.barrier(); });
}

TEST_CASE("a rank that makes the group when others have returned is told who is not there",
          "[distributed]") {
  WorldUnderTest world;
  const std::string text = error_of<DeadlockError>([&] {
    world.spawn([&](int rank) {
      if (rank == 2) world.pass_time(100);
      world.torch.distributed.init_process_group("meeting");
      if (rank == 2) world.torch.distributed.barrier();
    });
  });
  CHECK_THAT(text, test::Says("KB-C002", "0", "barrier#0", "2"));
}

TEST_CASE("a monitored barrier names who does not come", "[distributed]") {
  WorldUnderTest world;
  world.torch.distributed.init_process_group("meeting");
  const auto text = [&](bool wait_all_ranks) {
    return error_of<DeadlockError>([&] {
      world.spawn([&](int rank) {
        if (rank == 0) world.pass_time(100);
        if (rank == 0) {
          world.torch.distributed.monitored_barrier(
              {.timeout = std::chrono::milliseconds(2000), .wait_all_ranks = wait_all_ranks});
        }
      });
    });
  };
  CHECK_THAT(text(false), test::Says("KB-C021", "0", "1", "2000 ms", "monitored_barrier#0",
                                     "distributed_test.cpp"));
  CHECK_THAT(text(true), test::Says("KB-C021", "0", "1", "2", "2000 ms"));
  world.spawn([&](int) { world.torch.distributed.monitored_barrier(); });
}

}  // namespace
}  // namespace kernbench::test::distributed_test
