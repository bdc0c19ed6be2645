// The rule about data under way (ADR-0151) for rows: different ones have no elements in common.

#include <catch2/catch.hpp>

#include "runtime/torch/run_ranks.h"
#include "test/ccl/everywhere.h"

namespace kernbench::test::rows_under_way_test {
namespace {

using namespace under_way;
using distributed::ProcessGroup;
using distributed::Work;

TEST_CASE("different rows of a tensor are no obstacle to each other", "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    const int other = 1 - rank;
    const ProcessGroup second = world.dist.new_group({0, 1});
    const Tensor x = world.torch.zeros({4, world.n}, {.dp = DPPolicy::on_one_pe()});
    for (int row = 0; row < 4; ++row) {
      Tensor view = x[row];
      view.copy_(world.host(static_cast<float>(rank + row)));
    }
    std::vector<Work> works = {world.dist.irecv(x[0], other, {.tag = 0}),
                               world.dist.irecv(x[1], other, {.tag = 1}),
                               world.dist.all_reduce(x[2], {.async_op = true}),
                               world.dist.all_reduce(x[3], {.group = second, .async_op = true})};
    CHECK(refusal([&] { world.store_nine(x); }).starts_with("[KB-G003] kernel 'store_nine' at "));
    // The messages come when this rank has sent its own: the read must not wait for them.
    CHECK(last_of(x[3]) == 7);
    world.store_nine(x[3]);
    for (const int tag : {0, 1}) works.push_back(world.dist.isend(x[3], other, {.tag = tag}));
    for (const Work& work : works) work.wait();
    CHECK(first_of(x[0]) == 9);
    CHECK(first_of(x[1]) == 9);
    CHECK(last_of(x[2]) == 5);
  });
}

TEST_CASE("a kernel on all rows is refused when it stores into one that is read",
          "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int) {
    const Tensor x = world.torch.zeros({3, world.n}, {.dp = DPPolicy::on_one_pe()});
    const Tensor gathered = world.torch.zeros({2, world.n}, {.dp = DPPolicy::on_one_pe()});
    const Work work = world.dist.all_gather_into_tensor(gathered, x[1], {.async_op = true});
    const auto store = [&](std::int64_t row) {
      return [n = world.n, row](tl::Context& tl, tl::Pointer p) {
        tl.store(p + row * n, tl.full({n}, 9, DType::f32));
      };
    };
    for (const int row : {0, 2}) world.torch.launch("store", store(row), x);
    CHECK(refusal([&] { world.torch.launch("store", store(1), x); }).starts_with("[KB-G003] "));
    work.wait();
    CHECK(last_of(x[0]) == 9);
    CHECK(last_of(x[1]) == 0);
    CHECK(last_of(x[2]) == 9);
  });
}

TEST_CASE("a kernel that has its pointer from the host is refused at its load or store",
          "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    const Tensor x = world.full(rank + 1);
    const Tensor y = world.full(0);
    const tl::Pointer p = RuntimeContext::pointer_to(x, {rank, 0, 0});
    const auto is_first = [](const tl::Context& tl) { return tl.program_id() == 0; };
    const auto load = [&](tl::Context& tl, tl::Pointer to) {
      if (is_first(tl)) tl.store(to, tl.load(p, {1}, DType::f32));
    };
    const auto store = [&](tl::Context& tl, tl::Pointer from) {
      if (is_first(tl)) tl.store(p, tl.load(from, {1}, DType::f32));
    };
    const Work work = world.dist.all_reduce(x, {.async_op = true});
    const std::string stored = refusal([&] { world.torch.launch("store", store, y); });
    CHECK(stored.find("uses tensor '" + x.name() + "', which all_reduce#0 (") != std::string::npos);
    CHECK(refusal([&] { world.torch.launch("load", load, y); }).starts_with("[KB-G003] "));
    work.wait();
    world.torch.launch("load", load, y);
    CHECK(first_of(y) == 3);
  });
}

// The ranks of a square grid, in groups of a row and of a column of it.
void check_grid(const std::string& backend, int side) {
  CAPTURE(backend, side);
  const int ranks = side * side;
  Ranks world(link_topology(SipTopology::torus_2d, side, side), backend, 3);
  run_on_devices(world.torch, ranks, [&](int rank) {
    ProcessGroup row_group;
    ProcessGroup column_group;
    for (int i = 0; i < side; ++i) {
      std::vector<int> row;
      std::vector<int> column;
      for (int j = 0; j < side; ++j) {
        row.push_back(i * side + j);
        column.push_back(j * side + i);
      }
      const ProcessGroup of_row = world.dist.new_group(row);
      const ProcessGroup of_column = world.dist.new_group(column);
      if (rank / side == i) row_group = of_row;
      if (rank % side == i) column_group = of_column;
    }
    const Tensor x = world.torch.full({2, world.n}, rank, {.dp = DPPolicy::on_one_pe()});
    const Work in_row = world.dist.all_reduce(x[0], {.group = row_group, .async_op = true});
    const Work in_column = world.dist.all_reduce(x[1], {.group = column_group, .async_op = true});
    CHECK(refusal([&] {
            world.dist.all_reduce(x[0], {.group = column_group});
          }).starts_with("[KB-G003] all_reduce#1 "));
    in_row.wait();
    in_column.wait();
    CHECK(last_of(x[0]) == side * side * (rank / side) + side * (side - 1) / 2);
    CHECK(last_of(x[1]) == side * (rank % side) + side * side * (side - 1) / 2);
  });
}

TEST_CASE("rows and columns of 256 ranks reduce rows of one tensor at a time", "[ccl][under_way]") {
  check_grid("local", 16);
  check_grid("ahbm", 16);
}

}  // namespace
}  // namespace kernbench::test::rows_under_way_test
