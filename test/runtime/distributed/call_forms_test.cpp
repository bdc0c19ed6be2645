// The forms in which torch.distributed's functions are called: options come last, what stands
// before them and has a default may be left out, and a group alone stands for options with it.

#include <catch2/catch.hpp>

#include "runtime/torch/run_ranks.h"
#include "test/runtime/distributed/local_world.h"
#include "test/support/error_text.h"

namespace kernbench::test::call_forms_test {
namespace {

using distributed::ProcessGroup;
using distributed::Work;
using Elements = std::vector<float>;

// Runs `body(world, rank, group)` on three ranks, of which 0 and 2 are the group; the last one is
// no member.
void run(const std::function<void(LocalWorld&, int, const ProcessGroup&)>& body) {
  LocalWorld world(3);
  world.spawn([&](int rank) { body(world, rank, world.dist.new_group({0, 1, 2})); });
}

TEST_CASE("a reduction takes its operation, options, both or a group", "[distributed][forms]") {
  run([](LocalWorld& world, int rank, const ProcessGroup& g) {
    auto& dist = world.dist;
    const auto own = [&] { return world.tensor({static_cast<float>(rank + 1)}); };
    const auto reduced = [&](auto call) {
      const Tensor x = own();
      const Work work = call(x);
      if (work) work.wait();
      return x.item();
    };
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x); }) == 6);
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, {}); }) == 6);
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, {.async_op = true}); }) == 6);
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, {.group = g}); }) == 6);
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, {.op = ReduceOp::max}); }) == 3);
    CHECK(reduced([&](auto& x) {
            return dist.all_reduce(x, {.op = ReduceOp::min, .group = g, .async_op = true});
          }) == 1);
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, ReduceOp::max); }) == 3);
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, ReduceOp::max, g); }) == 3);
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, ReduceOp::max, {.group = g}); }) == 3);
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, g); }) == 6);
    const distributed::CollectiveOptions options{.group = g, .async_op = true};
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, options); }) == 6);
    CHECK(reduced([&](auto& x) { return dist.all_reduce(x, ReduceOp::sum, options); }) == 6);

    const float at_root = rank == 1 ? 6 : static_cast<float>(rank + 1);
    const float largest = rank == 1 ? 3 : static_cast<float>(rank + 1);
    CHECK(reduced([&](auto& x) { return dist.reduce(x, 1); }) == at_root);
    CHECK(reduced([&](auto& x) { return dist.reduce(x, 1, ReduceOp::max); }) == largest);
    CHECK(reduced([&](auto& x) { return dist.reduce(x, 1, {.async_op = true}); }) == at_root);
    CHECK(reduced([&](auto& x) { return dist.reduce(x, 1, {.op = ReduceOp::max}); }) == largest);
    CHECK(reduced([&](auto& x) { return dist.reduce(x, 1, g); }) == at_root);
    CHECK(reduced([&](auto& x) { return dist.reduce(x, {.dst = 1, .group = g}); }) == at_root);
  });
}

TEST_CASE("reduce_scatter takes options without an operation", "[distributed][forms]") {
  run([](LocalWorld& world, int rank, const ProcessGroup& g) {
    auto& dist = world.dist;
    const Tensor input = world.tensor({1, 2, 3});
    const std::vector<Tensor> inputs = {world.tensor({1}), world.tensor({2}), world.tensor({3})};
    const auto own = static_cast<float>(rank + 1);
    const auto scattered = [&](auto call) {
      const Tensor o = world.zeros({1});
      const Work work = call(o);
      if (work) work.wait();
      return o.item();
    };
    CHECK(scattered([&](auto& o) {
            return dist.reduce_scatter_tensor(o, input, {.async_op = true});
          }) == 3 * own);
    CHECK(scattered([&](auto& o) {
            return dist.reduce_scatter_tensor(o, input, {.op = ReduceOp::max, .group = g});
          }) == own);
    CHECK(scattered([&](auto& o) { return dist.reduce_scatter_tensor(o, input, g); }) == 3 * own);
    CHECK(scattered([&](auto& o) { return dist.reduce_scatter(o, inputs, {.async_op = true}); }) ==
          3 * own);
    CHECK(scattered([&](auto& o) { return dist.reduce_scatter(o, inputs, g); }) == 3 * own);
    CHECK(scattered([&](auto& o) {
            return dist.reduce_scatter(o, inputs, ReduceOp::avg, {.group = g});
          }) == own);
  });
}

TEST_CASE("all_to_all_single takes options without splits, and splits as lists",
          "[distributed][forms]") {
  run([](LocalWorld& world, int rank, const ProcessGroup& g) {
    auto& dist = world.dist;
    const auto r = static_cast<float>(rank);
    const Tensor input = world.tensor({r, 10 + r, 20 + r});
    const Elements expected = {10 * r, 10 * r + 1, 10 * r + 2};
    const std::vector<std::int64_t> ones = {1, 1, 1};
    const auto exchanged = [&](auto call) {
      const Tensor o = world.zeros({3});
      const Work work = call(o);
      if (work) work.wait();
      return o.to_vector();
    };
    CHECK(exchanged([&](auto& o) { return dist.all_to_all_single(o, input); }) == expected);
    CHECK(exchanged([&](auto& o) { return dist.all_to_all_single(o, input, {.group = g}); }) ==
          expected);
    CHECK(exchanged([&](auto& o) {
            return dist.all_to_all_single(o, input, {.async_op = true});
          }) == expected);
    CHECK(exchanged([&](auto& o) { return dist.all_to_all_single(o, input, g); }) == expected);
    CHECK(exchanged([&](auto& o) { return dist.all_to_all_single(o, input, {}); }) == expected);
    CHECK(exchanged([&](auto& o) { return dist.all_to_all_single(o, input, {}, {}); }) == expected);
    CHECK(exchanged([&](auto& o) {
            return dist.all_to_all_single(o, input, {}, {}, {.group = g});
          }) == expected);
    CHECK(exchanged([&](auto& o) {
            return dist.all_to_all_single(o, input, {1, 1, 1}, {1, 1, 1});
          }) == expected);
    CHECK(exchanged([&](auto& o) {
            return dist.all_to_all_single(o, input, ones, ones, {.group = g});
          }) == expected);
  });
}

TEST_CASE("collectives of lists and barriers take a group alone", "[distributed][forms]") {
  run([](LocalWorld& world, int rank, const ProcessGroup& g) {
    auto& dist = world.dist;
    const Tensor x = world.tensor({static_cast<float>(rank)});
    const std::vector<Tensor> list = {world.zeros({1}), world.zeros({1}), world.zeros({1})};
    const Tensor all = world.zeros({3});
    dist.barrier();
    dist.barrier({});
    dist.barrier(g);
    dist.barrier({.group = g});
    dist.barrier({.async_op = true}).wait();
    dist.monitored_barrier(g);
    dist.all_gather(list, x, g);
    CHECK(list[2].item() == 2);
    dist.all_gather_into_tensor(all, x, g);
    CHECK(all.to_vector() == Elements{0, 1, 2});
    dist.all_to_all(list, {x, x, x}, g);
    dist.broadcast(x, 2, g);
    CHECK(x.item() == 2);
    dist.broadcast(x, {.src = 1, .group = g});
  });
}

TEST_CASE("gather and scatter take rank 0 if no root is given", "[distributed][forms]") {
  run([](LocalWorld& world, int rank, const ProcessGroup& g) {
    auto& dist = world.dist;
    const Tensor x = world.tensor({static_cast<float>(rank)});
    const std::vector<Tensor> some = {world.zeros({1}), world.zeros({1}), world.zeros({1})};
    const std::vector<Tensor> list = rank == 0 ? some : std::vector<Tensor>();
    dist.gather(x, list);
    dist.gather(x, list, g);
    const Work work = dist.gather(x, list, {.async_op = true});
    work.wait();
    if (rank == 0) CHECK(some[2].item() == 2);
    rank == 0 ? dist.gather(x, list, {.group = g}) : dist.gather(x, {.group = g});
    rank == 1 ? dist.gather(x, some, {.dst = 1}) : dist.gather(x, {.dst = 1});
    rank == 0 ? dist.gather(x, {some[0], some[1], some[2]}) : dist.gather(x, {});
    dist.scatter(x, list, {.group = g});
    CHECK(x.item() == static_cast<float>(rank));
    rank == 2 ? dist.scatter(x, some, {.src = 2}) : dist.scatter(x, {.src = 2});
    std::vector<int> objects = {7};
    dist.broadcast_object_list(objects, g);
    dist.broadcast_object_list(objects, {.group = g});
    std::vector<int> gathered;
    dist.gather_object(rank, rank == 0 ? &gathered : nullptr, g);
    if (rank == 0) CHECK(gathered == std::vector<int>{0, 1, 2});
  });
}

TEST_CASE("messages take their peer among the options", "[distributed][forms]") {
  run([](LocalWorld& world, int rank, const ProcessGroup& g) {
    auto& dist = world.dist;
    const Tensor x = world.tensor({static_cast<float>(rank)});
    if (rank == 0) {
      dist.isend(x, {.dst = 1, .tag = 3}).wait();
      dist.isend(x, 1, g).wait();
      dist.isend(x, {.group = g, .group_dst = 1}).wait();
      dist.send(x, {.dst = 1, .group = g});
    }
    if (rank == 1) {
      dist.irecv(x, {.src = 0, .tag = 3}).wait();
      CHECK(x.item() == 0);
      dist.irecv(x, 0, g).wait();
      dist.irecv(x, g).wait();
      CHECK(dist.recv(x, {.group = g}) == 0);
    }
  });
}

TEST_CASE("a world is as large as is asked for", "[distributed][forms]") {
  LocalWorld unused(1);  // registers the backend
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 4, 1));
  auto& dist = torch.distributed;
  dist.init_process_group("local", {.world_size = 2});
  CHECK(dist.get_world_size() == 2);
  run_on_devices(torch, dist.get_world_size(), [&](int rank) {
    const Tensor x = torch.full({1}, rank + 1, {.dp = DPPolicy::on_one_pe()});
    dist.all_reduce(x);
    CHECK(x.item() == 3);
    CHECK(dist.new_group().size() == 2);
    CHECK_THAT(LocalWorld::refusal([&] {
                 dist.new_group({0, 2});
               }),
               test::Says("KB-C020", "2", "0", "1", "world_size"));
  });
}

}  // namespace
}  // namespace kernbench::test::call_forms_test
