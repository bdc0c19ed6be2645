// Ranks that call different things, or not all.

#include "test/failures/failure_case.h"

namespace kernbench::test {
namespace {

void operation() {
  LocalRanks world(3);
  world.spawn([&](int rank) {
    const Tensor x = world.ones();
    rank == 1 ? world.dist.broadcast(x, 0) : world.dist.all_reduce(x);
  });
}

void shape() {
  LocalRanks world(2);
  world.spawn([&](int rank) { world.dist.all_reduce(world.ones({rank == 1 ? 20 : 10})); });
}

void dtype() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    world.dist.all_reduce(world.ones({10}, rank == 1 ? DType::f32 : DType::f16));
  });
}

void reduce_op() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    world.dist.all_reduce(world.ones(), rank == 1 ? ReduceOp::max : ReduceOp::sum);
  });
}

void root() {
  LocalRanks world(2);
  world.spawn([&](int rank) { world.dist.broadcast(world.ones(), rank); });
}

void members() {
  LocalRanks world(3);
  world.spawn([&](int rank) {
    const std::vector<int> ranks = {0, rank == 1 ? 2 : 1};
    world.dist.new_group(ranks);
  });
}

void member_order() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    const std::vector<int> ranks = {rank, 1 - rank};
    world.dist.new_group(ranks, {.sort_ranks = false});
  });
}

void groups_that_wait_for_each_other() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    const auto first = world.dist.new_group({0, 1});
    const auto second = world.dist.new_group({0, 1});
    world.dist.barrier({.group = rank == 0 ? first : second});
    world.dist.barrier({.group = rank == 0 ? second : first});
  });
}

// Each rank is in two of three groups, and calls them in an order of its own.
void groups_in_a_circle() {
  LocalRanks world(4);
  world.spawn([&](int rank) {
    std::vector<distributed::ProcessGroup> groups;
    for (int i = 0; i < 3; ++i) {
      groups.push_back(world.dist.new_group({i, (i + 1) % 3, 3}));
    }
    if (rank == 3) world.dist.barrier();
    const auto own = static_cast<std::size_t>(rank);
    const auto work = world.dist.all_reduce(world.ones(), ReduceOp::sum,
                                            {.group = groups[own], .async_op = true});
    work.wait();
  });
}

void no_member() {
  LocalRanks world(2);
  world.spawn([&](int) {
    const auto group = world.dist.new_group({0});
    world.dist.all_reduce(world.ones(), ReduceOp::sum, {.group = group});
  });
}

void order() {
  LocalRanks world(4);
  world.spawn([&](int rank) {
    const Tensor x = world.ones();
    for (const bool first : {true, false}) {
      first == (rank % 2 == 0) ? world.dist.all_reduce(x) : world.dist.barrier();
    }
  });
}

void missing() {
  LocalRanks world(4);
  world.spawn([&](int rank) {
    for (int i = 0; i < (rank == 1 ? 3 : 4); ++i) world.dist.all_reduce(world.ones());
  });
}

void returns_early() {
  LocalRanks world(3);
  world.spawn([&](int rank) {
    if (rank == 1) return;
    world.dist.barrier();
  });
}

void async_and_not() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    const auto work = world.dist.barrier({.async_op = rank == 1});
    if (work) work.wait();
  });
}

void inside_a_kernel() {
  LocalRanks world(2);
  world.spawn([&](int) {
    world.torch.launch(
        "k", [&](tl::Context&, tl::Pointer) { world.dist.barrier(); }, world.ones());
  });
}

void never_waited_for() {
  LocalRanks world(2);
  world.spawn([&](int) { world.dist.barrier({.async_op = true}); });
}

// They have ended, but nobody has seen it: of two of one group, the last is named.
void ended_unseen() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.ones();
    world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    rank == 0 ? world.dist.isend(world.ones(), 1) : world.dist.irecv(world.ones(), 0);
    world.pass_time();
  });
}

void waited_for_by_another() {
  LocalRanks world(2);
  distributed::Work of_rank_0;
  world.spawn([&](int rank) {
    const auto work = world.dist.barrier({.async_op = true});
    if (rank == 0) of_rank_0 = work;
    work.wait();
    work.wait();  // any number of times
    if (rank == 1) of_rank_0.wait();
  });
}

void host_read() {
  LocalRanks world(2);
  world.spawn([&](int) {
    const Tensor x = world.ones();
    const auto work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    if (x.at({0}) != 2) throw std::logic_error("it does not wait");
    work.wait();
  });
}

void host_write() {
  LocalRanks world(2);
  world.spawn([&](int) {
    Tensor x = world.ones();
    const auto work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    x.copy_(RuntimeContext::tensor({1, 2, 3, 4}, {4}));
    work.wait();
  });
}

void two_groups() {
  LocalRanks world(2);
  world.spawn([&](int) {
    const auto other = world.dist.new_group({0, 1});
    const Tensor x = world.ones();
    const auto work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    world.dist.all_reduce(x, ReduceOp::sum, {.group = other});
    work.wait();
  });
}

void kernel_under_a_collective() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.ones();
    const auto work = world.dist.broadcast(x, {.src = 0, .async_op = true});
    if (rank == 0) {
      world.torch.launch(
          "clear", [](tl::Context& tl, tl::Pointer p) { tl.store(p, tl.zeros({4}, DType::f32)); },
          x);
    }
    work.wait();
  });
}

void overlapping_outputs() {
  LocalRanks world(2);
  world.spawn([&](int) {
    const Tensor out = world.ones();
    world.dist.all_gather({out, out.detach()}, world.ones());
  });
}

void one_device() {
  LocalRanks world(2);
  world.spawn([&](int) {
    world.torch.ahbm.set_device(0);
    world.dist.all_reduce(world.ones());
  });
}

void seen_to_be_done() {
  LocalRanks world(2);
  world.spawn([&](int) {
    const auto polled = world.dist.barrier({.async_op = true});
    while (!polled.is_completed()) {
    }
    const Tensor x = world.ones();
    const auto read = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    if (x.at({0}) != 2) throw std::logic_error("it does not wait");
  });
}

void send_to_one_who_returned() {
  LocalRanks world(3);
  world.spawn([&](int rank) {
    if (rank == 0) return;
    if (rank == 1) world.dist.send(world.ones(), 0);
    if (rank == 2) world.dist.isend(world.ones(), 1);
  });
}

}  // namespace

std::vector<FailureCase> collective_cases() {
  return {{"A4-operation", operation},
          {"A5-shape", shape},
          {"A6-dtype", dtype},
          {"A7-reduce-op", reduce_op},
          {"A8-root", root},
          {"A9-members", members},
          {"A9-member-order", member_order},
          {"A9-groups-wait", groups_that_wait_for_each_other},
          {"A9-groups-circle", groups_in_a_circle},
          {"A9-no-member", no_member},
          {"A10-order", order},
          {"A10-missing", missing},
          {"A12-returns-early", returns_early},
          {"A12-message", send_to_one_who_returned},
          {"A4-async", async_and_not},
          {"A23-kernel", inside_a_kernel},
          {"A22-never-waited", never_waited_for},
          {"A22-ended-unseen", ended_unseen},
          {"A22-another-waits", waited_for_by_another},
          {"A22-seen", seen_to_be_done},
          {"G2-host-read", host_read},
          {"G3-host-write", host_write},
          {"G3-two-groups", two_groups},
          {"G3-kernel", kernel_under_a_collective},
          {"G4-outputs", overlapping_outputs},
          {"B10-one-device", one_device}};
}

}  // namespace kernbench::test
