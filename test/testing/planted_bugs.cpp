#include "test/testing/planted_bugs.h"

#include <memory>
#include <string>

namespace kernbench::test::planted_bugs {

namespace {

using testing::World;

Tensor number(World& world, float value) {
  return world.torch.full({1}, value);
}

void show(World& world, float value) {
  world.observe("result", number(world, value));
}

// Rank 0 reads what rank 0 to 3 leave in a host's variable, in the order in which they happen to
// begin.
void missing_barrier(World& world) {
  std::vector<float> shared(4, 0);
  world.run([&](int rank) {
    shared[static_cast<std::size_t>(rank)] = 1;
    if (rank == 3) show(world, shared[0] + shared[1] + shared[2] + shared[3]);
  });
}

// The difference of two messages, in the order in which they come.
void wildcard_race(World& world) {
  world.run([&](int rank) {
    const Tensor x = number(world, static_cast<float>(rank));
    if (rank == 1 || rank == 2) world.torch.distributed.send(x, 0);
    if (rank != 0) return;
    const Tensor first = number(world, 0);
    const Tensor second = number(world, 0);
    world.torch.distributed.recv(first);
    world.torch.distributed.recv(second);
    show(world, first.item() - second.item());
  });
}

// The receive of a command would take data too, since both have the tag 0.
void wrong_tag(World& world) {
  world.run([&](int rank) {
    const Tensor x = number(world, static_cast<float>(rank));
    if (rank == 1 || rank == 2) world.torch.distributed.send(x, 0, {.tag = 0});
    if (rank != 0) return;
    world.torch.distributed.recv(x, std::nullopt, {.tag = 0});
    show(world, x.item());
    world.torch.distributed.recv(x, std::nullopt, {.tag = 0});
  });
}

// Floats are added in the order in which they come: (1 - 1e8) + 1e8 is 0.
void order_of_a_sum(World& world) {
  world.run([&](int rank) {
    const std::vector<float> summands{0, 1e8F, -1e8F, 1};
    const Tensor x = number(world, summands[static_cast<std::size_t>(rank)]);
    if (rank != 0) return world.torch.distributed.send(x, 0);
    float sum = 0;
    for (int i = 0; i < 3; ++i) {
      world.torch.distributed.recv(x);
      sum += x.item();
    }
    show(world, sum);
  });
}

// The message of the wildcard is needed by the receive behind it.
void starving_receive(World& world) {
  world.run([&](int rank) {
    const Tensor x = number(world, 0);
    if (rank == 2 || rank == 3) world.torch.distributed.send(x, 0);
    if (rank != 0) return;
    world.torch.distributed.recv(x);
    world.torch.distributed.recv(x, 3);
  });
}

// A rank takes the second message as the sign that the first is there.
void forgotten_wait(World& world) {
  world.run([&](int rank) {
    const Tensor x = number(world, 5);
    if (rank < 2) return world.torch.distributed.send(x, 3, {.tag = rank});
    if (rank != 3) return;
    const auto work = world.torch.distributed.irecv(number(world, 0), 0, {.tag = 0});
    world.torch.distributed.recv(x, 1, {.tag = 1});
    const bool is_there = work.is_completed();
    work.wait();
    show(world, is_there ? 1 : 0);
  });
}

// The first rank that comes leads, whichever it is.
void first_comes_first(World& world) {
  const distributed::HashStore store(world.torch);
  world.run([&](int rank) {
    const std::string leader = store.compare_set("leader", "", std::to_string(rank));
    show(world, std::stof(leader));
  });
}

// A ticket is the number of those before, not the rank.
void ticket_as_rank(World& world) {
  const distributed::HashStore store(world.torch);
  world.run([&](int rank) {
    const auto ticket = static_cast<float>(store.add("tickets", 1) - 1);
    const Tensor x = number(world, ticket * static_cast<float>(rank));
    world.torch.distributed.all_reduce(x);
  });
}

// Rank 1 writes the host's buffer that rank 0 has not yet sent.
void rewritten_buffer(World& world) {
  float buffer = 0;
  world.run([&](int rank) {
    const Tensor x = number(world, 0);
    if (rank == 0) {
      buffer = 1;
      world.torch.distributed.send(x, 2);
      show(world, buffer);
    }
    if (rank == 2) world.torch.distributed.recv(x, 0);
    if (rank == 3) world.torch.distributed.send(x, 1);
    if (rank != 1) return;
    world.torch.distributed.recv(x, 3);
    buffer = 2;
  });
}

// A rank that has seen no message calls another collective than the others.
void collective_by_chance(World& world) {
  const distributed::HashStore store(world.torch);
  world.run([&](int rank) {
    if (rank == 0) store.set("mode", "sum");
    const Tensor x = number(world, 1);
    store.add("count", 1);
    const bool sums = rank == 0 || store.num_keys() == 2;
    sums ? (void)world.torch.distributed.all_reduce(x)
         : (void)world.torch.distributed.broadcast(x, 0);
  });
}

// On a device: of two neighbours' messages, the first is used.
void faster_of_two(World& world) {
  world.run([&](int rank) {
    const Tensor x = world.torch.full({256}, rank);
    if (rank == 1 || rank == 3) return world.torch.distributed.send(x, 0);
    if (rank != 0) return;
    const auto one = world.torch.distributed.irecv(x, 1);
    const auto other = world.torch.distributed.irecv(world.torch.zeros({256}), 3);
    while (!one.is_completed() && !other.is_completed()) {
    }
    show(world, one.is_completed() ? 1 : 3);
    one.wait();
    other.wait();
  });
}

}  // namespace

// On a device: each kernel sends to the next one before it receives.
void send_before_receive(World& world) {
  world.run([&](int) {
    const Tensor x = world.torch.full({4}, 1, {.dp = DPPolicy::on_one_pe()});
    world.torch.launch(
        "shift",
        [](tl::Context& tl, tl::Pointer p) {
          const tl::Tensor own = tl.load(p, {4}, DType::f32);
          for (int i = 0; i < 3; ++i) tl.send(tl::Direction::global_east, own);
          for (int i = 0; i < 3; ++i) {
            tl.store(p, tl.recv(tl::Direction::global_west, {4}, DType::f32));
          }
        },
        x);
    world.torch.ahbm.synchronize();
  });
}

std::vector<PlantedBug> all_bugs() {
  return {{"missing barrier", missing_barrier},
          {"wildcard race", wildcard_race},
          {"wrong tag", wrong_tag},
          {"order of a sum", order_of_a_sum},
          {"starving receive", starving_receive},
          {"forgotten wait", forgotten_wait},
          {"first comes first", first_comes_first},
          {"ticket as rank", ticket_as_rank},
          {"rewritten buffer", rewritten_buffer},
          {"collective by chance", collective_by_chance},
          {"faster of two", faster_of_two, "ahbm"},
          {"send before receive", send_before_receive, "ahbm"}};
}

}  // namespace kernbench::test::planted_bugs
