// async_op and torch.distributed.Work.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/functional/operators.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/hbm_allocator.h"
#include "test/runtime/distributed/local_world.h"
#include "test/support/error_text.h"

namespace kernbench::test::work_test {
namespace {

using distributed::Work;
using distributed::WorkResult;

TEST_CASE("a work is done when its collective is", "[distributed][work]") {
  LocalWorld world(2);
  bool rank_1_called = false;
  world.spawn([&](int rank) {
    Tensor x = world.tensor({1});
    if (rank == 1) {
      for (int i = 0; i < 10; ++i) world.tensor({1, 2, 3});  // let time pass
      rank_1_called = true;
    }
    const Work work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    REQUIRE(work.defined());
    if (rank == 0) {
      CHECK_FALSE(rank_1_called);
      CHECK_FALSE(work.is_completed());
      CHECK_FALSE(work.is_success());
      CHECK(work.get_future_result() == WorkResult::unknown);
    }
    CHECK(work.wait());
    CHECK(rank_1_called);
    CHECK(work.wait());  // any number of times
    CHECK(work.is_completed());
    CHECK(work.is_success());
    CHECK(work.exception() == nullptr);
    CHECK(work.get_future_result() == WorkResult::success);
    CHECK(work.get_sequence_number() == 0);
    CHECK(work.result().front().to_vector() == std::vector<float>{2});
    CHECK(work.source_rank() == -1);
  });
}

TEST_CASE("works may be waited for in any order, and sequence numbers count",
          "[distributed][work]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 4; ++i) {
      tensors.push_back(world.tensor({static_cast<float>(rank + i)}));
      works.push_back(world.dist.all_reduce(tensors.back(), ReduceOp::sum, {.async_op = true}));
      CHECK(works.back().get_sequence_number() == static_cast<std::uint64_t>(i));
    }
    for (std::size_t i = 4; i-- > 0;) {
      works[i].wait();
      CHECK(tensors[i].item() == 3 + 3 * static_cast<float>(i));
    }
  });
}

TEST_CASE("a collective that blocks follows those that do not", "[distributed][work]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    Tensor x = world.tensor({static_cast<float>(rank + 1)});
    const Work first = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    world.dist.all_reduce(x);  // of 3 and 3
    CHECK(first.is_completed());
    CHECK(x.item() == 6);
  });
}

TEST_CASE("a host read waits for the work on its tensor", "[distributed][work]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    Tensor x = world.tensor({1});
    if (rank == 1) world.tensor({1, 2, 3});
    const Work work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    CHECK(x.item() == 2);
    CHECK(work.is_completed());
    work.wait();
  });
}

TEST_CASE("a host write to a tensor that a work uses is refused", "[distributed][work]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    Tensor x = world.tensor({1});
    if (rank == 1) world.tensor({1, 2, 3});
    const auto line = std::source_location::current().line() + 1;
    const Work work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    const Tensor host = RuntimeContext::tensor({7}, {1});
    CHECK_THAT(LocalWorld::refusal([&] { x.copy_(host); }),
               Says("KB-G003", fmt::format("copy_ at work_test.cpp:{} writes", line + 2),
                    fmt::format("'{}'", x.name()),
                    fmt::format("all_reduce#0 ([1] Float SUM) at work_test.cpp:{}", line), "Work"));
    work.wait();
    CHECK(x.item() == 2);
    x.copy_(host);
    CHECK(x.item() == 7);
  });
}

TEST_CASE("after a failed run a tensor may be read and written", "[distributed][work]") {
  LocalWorld world(2);
  Tensor x = world.tensor({1});
  Work kept;
  CHECK_THROWS_AS(world.spawn([&](int rank) {
    if (rank == 1) throw std::runtime_error("boom");
    kept = world.dist.isend(x, 1);
    kept.wait();
  }),
                  SpawnException);
  CHECK(x.item() == 1);
  x.copy_(RuntimeContext::tensor({2}, {1}));
  CHECK(x.item() == 2);
}

TEST_CASE("a kernel on what a work is to write is refused, on what it reads it is not",
          "[distributed][work]") {
  LocalWorld world(2);
  std::string text;
  std::string name;
  const auto line = std::source_location::current().line() + 4;
  world.spawn([&](int rank) {
    const Tensor x = world.tensor({1});
    const Tensor source = world.tensor({static_cast<float>(rank)});
    const Work work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    if (rank == 0) {
      name = x.name();
      text = LocalWorld::refusal([&] { x + x; });
    }
    work.wait();
    CHECK((x + x).item() == 4);
    if (rank == 0) {
      const Work send = world.dist.isend(source, 1);
      CHECK((source + source).item() == 0);
      send.wait();
    } else {
      world.dist.recv(x, 0);
    }
  });
  CHECK_THAT(text, Says("KB-G003", "kernel 'add' uses", fmt::format("'{}'", name),
                        fmt::format("all_reduce#0 ([1] Float SUM) at work_test.cpp:{}", line)));
}

TEST_CASE("what nobody waits for ends all the same", "[distributed][work]") {
  LocalWorld world(2);
  std::vector<Tensor> tensors(2);
  world.spawn([&](int rank) {
    Tensor x = world.tensor({1});
    tensors[static_cast<std::size_t>(rank)] = x;
    if (rank == 1) world.tensor({1, 2, 3});
    world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
  });
  CHECK(tensors[0].item() == 2);
  CHECK(tensors[1].item() == 2);
}

TEST_CASE("None and another rank's work are refused", "[distributed][work]") {
  LocalWorld world(2);
  Work of_rank_0;
  world.spawn([&](int rank) {
    Tensor x = world.tensor({1});
    const Work none = world.dist.all_reduce(x);
    CHECK_FALSE(none.defined());
    CHECK(LocalWorld::refusal([&] { none.wait(); }).starts_with("[KB-R002] the Work is None"));
    const Work work = world.dist.barrier({.async_op = true});
    if (rank == 0) of_rank_0 = work;
    work.wait();
    world.dist.barrier();
    if (rank == 1) {
      CHECK_THAT(LocalWorld::refusal([&] { of_rank_0.wait(); }),
                 test::Says("KB-C010", "1", "0", "barrier#1", "work_test.cpp"));
    }
  });
}

TEST_CASE("a group is destroyed when the works of its ranks have ended", "[distributed][work]") {
  LocalWorld world(2);
  world.dist.destroy_process_group();
  std::vector<Tensor> tensors(2);
  world.spawn([&](int rank) {
    world.dist.init_process_group("local");
    const Tensor x = world.tensor({1});
    tensors[static_cast<std::size_t>(rank)] = x;
    if (rank == 1) world.tensor({1, 2, 3});  // let time pass
    const Work work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    world.dist.destroy_process_group();
    CHECK(work.is_success());
  });
  CHECK(tensors[0].item() == 2);
  CHECK(tensors[1].item() == 2);
}

TEST_CASE("a work that is done keeps no tensor alive, but for its handles", "[distributed][work]") {
  LocalWorld world(2);
  const auto in_use = [&] {
    return simulation_of(world.torch).allocator(0).allocated() +
           simulation_of(world.torch).allocator(1).allocated();
  };
  const Bytes before = in_use();
  std::vector<Work> kept(2);
  world.spawn([&](int rank) {
    for (const bool by_message : {false, true}) {
      Tensor x = world.tensor({1, 2, 3});
      Work work;
      if (by_message) {
        work = rank == 0 ? world.dist.isend(x, 1) : world.dist.irecv(x, 0);
      } else {
        work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
      }
      x = Tensor();
      work.wait();
      world.dist.barrier();
      CHECK(in_use() > before);
      if (!by_message || rank == 1) CHECK(work.result().front().numel() == 3);
      world.dist.barrier();
      work = Work();
      world.dist.barrier();
      CHECK(in_use() == before);
      world.dist.barrier();
    }
    kept[static_cast<std::size_t>(rank)] =
        world.dist.all_reduce(world.tensor({1}), ReduceOp::sum, {.async_op = true});
    kept[static_cast<std::size_t>(rank)].wait();
  });
  CHECK(kept[1].result().front().item() == 2);
  kept.clear();
  CHECK(in_use() == before);
}

TEST_CASE("two async sums of one partial tensor match, however a rank waits between them",
          "[distributed][work]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    Tensor x = world.torch.zeros({2}, {.dp = {.pe = Shard::partial}});
    for (std::size_t i = 0; i < 2; ++i) {
      x.copy_shard_(i, RuntimeContext::tensor({1, 2}, {2}));
    }
    const Work first = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    if (rank == 1) first.wait();
    const Work second = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    second.wait();
    first.wait();
    CHECK(x.dp() == DPPolicy{.pe = Shard::replicate});
    CHECK(x.to_vector() == std::vector<float>{8, 16});
  });
  // A tensor that is only read, or reduced to another rank, stays partial.
  world.spawn([&](int rank) {
    const Tensor x = world.torch.zeros({2}, {.dp = {.pe = Shard::partial}});
    const Tensor y = world.zeros({4});
    const Work gathered = world.dist.all_gather_into_tensor(y, x, {.async_op = true});
    if (rank == 1) gathered.wait();
    world.dist.reduce(x, 1);
    gathered.wait();
    CHECK(is_partial(x.dp()) == (rank == 0));
  });
}

TEST_CASE("a failure that a rank has caught does not hide what comes after it",
          "[distributed][work]") {
  LocalWorld world(2);
  CHECK(error_of<DeadlockError>([&] {
          world.spawn([&](int rank) {
            const Tensor x = rank == 0 ? world.tensor({1, 2}) : world.zeros({1});
            LocalWorld::refusal([&] {
              rank == 0 ? world.dist.send(x, 1) : static_cast<void>(world.dist.recv(x, 0));
            });
            world.dist.recv(x, 1 - rank);
          });
        }).starts_with("[KB-D001]"));
}

TEST_CASE("a work whose run has ended before it is no success", "[distributed][work]") {
  LocalWorld world(2);
  Work kept;
  CHECK_THROWS_AS(world.spawn([&](int rank) {
    const Tensor x = world.tensor({1});
    if (rank == 1) throw std::runtime_error("boom");
    kept = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    world.dist.barrier();
  }),
                  SpawnException);
  CHECK(kept.is_completed());
  CHECK_FALSE(kept.is_success());
  CHECK(kept.get_future_result() == WorkResult::comm_error);
  CHECK_FALSE(kept.wait());
}

TEST_CASE("the group of ranks that run is not destroyed from outside", "[distributed][work]") {
  LocalWorld world(2);
  auto context = world.torch.multiprocessing.spawn([&](int) { world.dist.barrier(); },
                                                   std::tuple<>(), 2, {.join = false});
  CHECK_THAT(LocalWorld::refusal([&] { world.dist.destroy_process_group(); }),
             test::Says("KB-R002", "destroy_process_group", "while", "ranks", "first"));
  CHECK(context.join());
  world.dist.destroy_process_group();
}

}  // namespace
}  // namespace kernbench::test::work_test
