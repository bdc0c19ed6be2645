// Tests what collectives compute, rank by rank, on the backend `local`.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "runtime/torch/run_ranks.h"
#include "test/runtime/distributed/local_world.h"

namespace kernbench::test::local_backend_test {
namespace {

using distributed::Work;
using Elements = std::vector<float>;

// 100 * rank + i: no two elements of a world are equal.
Elements own_elements(int rank, int count) {
  Elements elements(static_cast<std::size_t>(count));
  std::iota(elements.begin(), elements.end(), static_cast<float>(100 * rank));
  return elements;
}

TEST_CASE("every reduce op is what it is called, on every rank", "[distributed][local]") {
  for (const int size : {1, 2, 3, 6}) {
    LocalWorld world(size);
    std::vector<Elements> results;
    world.spawn([&](int rank) {
      for (const ReduceOp op :
           {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
        Tensor x = world.tensor({static_cast<float>(rank + 1), static_cast<float>(2 - rank)});
        CHECK_FALSE(world.dist.all_reduce(x, op).defined());
        results.push_back(x.to_vector());
      }
    });
    float sum = 0, falling = 0, product = 1, falling_product = 1;
    for (int rank = 0; rank < size; ++rank) {
      sum += static_cast<float>(rank + 1);
      falling += static_cast<float>(2 - rank);
      product *= static_cast<float>(rank + 1);
      falling_product *= static_cast<float>(2 - rank);
    }
    const auto n = static_cast<float>(size);
    const std::vector<Elements> expected = {{sum, falling},
                                            {sum / n, falling / n},
                                            {product, falling_product},
                                            {1, 2 - (n - 1)},
                                            {n, 2}};
    std::map<Elements, int> seen;
    for (const Elements& result : results) ++seen[result];
    std::map<Elements, int> wanted;
    for (const Elements& result : expected) wanted[result] += size;
    CHECK(seen == wanted);
  }
}

TEST_CASE("broadcast and reduce know their root", "[distributed][local]") {
  LocalWorld world(3);
  for (int root = 0; root < 3; ++root) {
    world.spawn([&](int rank) {
      Tensor x = world.tensor(own_elements(rank, 3));
      world.dist.broadcast(x, root);
      CHECK(x.to_vector() == own_elements(root, 3));
      Tensor y = world.tensor(own_elements(rank, 3));
      world.dist.reduce(y, root);
      CHECK(y.to_vector() == (rank == root ? Elements{300, 303, 306} : own_elements(rank, 3)));
    });
  }
}

TEST_CASE("all_gather, concatenated, stacked and as a list", "[distributed][local]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const Tensor x = world.tensor(own_elements(rank, 2));
    const Elements all = {0, 1, 100, 101, 200, 201};
    const Tensor joined = world.zeros({6});
    world.dist.all_gather_into_tensor(joined, x);
    CHECK(joined.to_vector() == all);
    const Tensor stacked = world.zeros({3, 2});
    world.dist.all_gather_into_tensor(stacked, x);
    CHECK(stacked.to_vector() == all);
    const std::vector<Tensor> list = {world.zeros({2}), world.zeros({2}), world.zeros({2})};
    world.dist.all_gather(list, x);
    for (int from = 0; from < 3; ++from) {
      CHECK(list[static_cast<std::size_t>(from)].to_vector() == own_elements(from, 2));
    }
  });
}

TEST_CASE("all_gather takes inputs of different sizes as a list", "[distributed][local]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    std::vector<Tensor> list;
    for (int from = 0; from < 3; ++from) list.push_back(world.zeros({from + 1}));
    world.dist.all_gather(list, world.tensor(own_elements(rank, rank + 1)));
    for (int from = 0; from < 3; ++from) {
      CHECK(list[static_cast<std::size_t>(from)].to_vector() == own_elements(from, from + 1));
    }
  });
}

TEST_CASE("reduce_scatter of a tensor and of a list", "[distributed][local]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const Tensor input = world.tensor(own_elements(rank, 6));
    const Tensor output = world.zeros({2});
    world.dist.reduce_scatter_tensor(output, input);
    const auto first = static_cast<float>(300 + 3 * 2 * rank);
    CHECK(output.to_vector() == Elements{first, first + 3});
    std::vector<Tensor> inputs;
    for (int to = 0; to < 3; ++to) {
      inputs.push_back(world.tensor({static_cast<float>(10 * rank + to)}));
    }
    const Tensor one = world.zeros({1});
    world.dist.reduce_scatter(one, inputs, ReduceOp::max);
    CHECK(one.item() == static_cast<float>(20 + rank));
  });
}

TEST_CASE("all_to_all in equal parts, in splits and as a list", "[distributed][local]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const auto r = static_cast<float>(rank);
    const Tensor output = world.zeros({3});
    world.dist.all_to_all_single(output, world.tensor({10 * r, 10 * r + 1, 10 * r + 2}));
    CHECK(output.to_vector() == Elements{r, 10 + r, 20 + r});

    // Rank r gives r + 1 elements to each other, and takes s + 1 from rank s.
    const std::vector<std::int64_t> gives(3, rank + 1);
    const std::vector<std::int64_t> takes = {1, 2, 3};
    const Tensor uneven = world.zeros({6});
    world.dist.all_to_all_single(
        uneven, world.tensor(Elements(static_cast<std::size_t>(3 * (rank + 1)), r)), takes, gives);
    CHECK(uneven.to_vector() == Elements{0, 1, 1, 2, 2, 2});

    std::vector<Tensor> inputs, outputs;
    for (int to = 0; to < 3; ++to) {
      inputs.push_back(world.tensor({10 * r + static_cast<float>(to)}));
      outputs.push_back(world.zeros({1}));
    }
    world.dist.all_to_all(outputs, inputs);
    for (int from = 0; from < 3; ++from) {
      CHECK(outputs[static_cast<std::size_t>(from)].item() == static_cast<float>(10 * from) + r);
    }
  });
}

TEST_CASE("gather and scatter use lists on the root alone", "[distributed][local]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    std::vector<Tensor> list;
    for (int i = 0; i < 3 && rank == 1; ++i) list.push_back(world.zeros({2}));
    world.dist.gather(world.tensor(own_elements(rank, 2)), list, {.dst = 1});
    for (int from = 0; from < 3 && rank == 1; ++from) {
      CHECK(list[static_cast<std::size_t>(from)].to_vector() == own_elements(from, 2));
    }
    std::vector<Tensor> given;
    for (int to = 0; to < 3 && rank == 2; ++to) given.push_back(world.tensor(own_elements(to, 2)));
    const Tensor mine = world.zeros({2});
    world.dist.scatter(mine, given, {.src = 2});
    CHECK(mine.to_vector() == own_elements(rank, 2));
  });
}

TEST_CASE("an output may be an input", "[distributed][local]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    const Tensor x =
        world.tensor({static_cast<float>(10 * rank), static_cast<float>(10 * rank + 1)});
    world.dist.all_to_all_single(x, x);
    CHECK(x.to_vector() == Elements{static_cast<float>(rank), static_cast<float>(10 + rank)});
  });
}

TEST_CASE("collectives see tensors as a whole, however they are placed", "[distributed][local]") {
  distributed::register_local_backend();
  const DPPolicy rows{.cube = Shard::row_wise, .pe = Shard::replicate};
  const DPPolicy columns{.cube = Shard::replicate, .pe = Shard::column_wise};
  const DPPolicy summands{.cube = Shard::partial, .pe = Shard::replicate};
  for (const DPPolicy& in : {rows, columns, summands}) {
    for (const DPPolicy& out : {rows, columns, summands}) {
      RuntimeContext torch{Topology::load(fmt::format("{}/topologies/tiny.yaml", KERNBENCH_ROOT))};
      const int size = torch.topology().system.sip_count;
      torch.distributed.init_process_group("local");
      run_on_devices(torch, size, [&](int rank) {
        Tensor x = torch.zeros({3, 5}, {.dp = in});
        const Elements own = own_elements(rank, 15);
        x.copy_(RuntimeContext::tensor(own, {3, 5}));
        Tensor all = torch.zeros({3 * size, 5}, {.dp = out});
        torch.distributed.all_gather_into_tensor(all, x);
        Elements expected;
        for (int from = 0; from < size; ++from) {
          for (const float element : own_elements(from, 15)) expected.push_back(element);
        }
        CHECK(all.to_vector() == expected);
        Tensor back = torch.zeros({3, 5}, {.dp = out});
        torch.distributed.reduce_scatter_tensor(back, all);
        for (float& element : expected) element *= static_cast<float>(size);
        CHECK(back.to_vector() ==
              Elements(expected.begin() + 15 * rank, expected.begin() + 15 * (rank + 1)));
      });
    }
  }
}

TEST_CASE("collectives of local take no simulated time", "[distributed][local][timing]") {
  LocalWorld world(3);
  Time before{0};
  world.spawn([&](int rank) {
    Tensor x = world.tensor(own_elements(rank, 4));
    world.dist.barrier();
    before = world.torch.engine().now();
    for (int i = 0; i < 10; ++i) world.dist.all_reduce(x);
    CHECK(world.torch.engine().now() == before);
  });
}

TEST_CASE("a group of one does what it does, and its work is done", "[distributed][local]") {
  LocalWorld world(1);
  world.spawn([&](int) {
    Tensor x = world.tensor({3, 4});
    const Work work = world.dist.all_reduce(x, ReduceOp::avg, {.async_op = true});
    CHECK(work.defined());
    CHECK(work.wait());
    CHECK(x.to_vector() == Elements{3, 4});
  });
}

}  // namespace
}  // namespace kernbench::test::local_backend_test
