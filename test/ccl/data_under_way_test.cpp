// The rule about data under way (ADR-0151), on both backends, at several sizes and topologies: the
// same programs are refused, and the others give the same values.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/torch/run_ranks.h"
#include "test/ccl/everywhere.h"

namespace kernbench::test::data_under_way_test {
namespace {

using namespace under_way;
using distributed::PointToPoint;
using distributed::ProcessGroup;
using distributed::Work;

unsigned line_here(std::source_location here = std::source_location::current()) {
  return here.line();
}
std::string place(unsigned line) {
  return fmt::format("data_under_way_test.cpp:{}", line);
}
std::string quoted(const Tensor& tensor) {
  return fmt::format("tensor '{}'", tensor.name());
}

TEST_CASE("a collective on what one of another group is to write is refused, with both lines",
          "[ccl][under_way]") {
  everywhere(4, [](Ranks& world, int rank) {
    const ProcessGroup pair = world.dist.new_group({0, 1});
    const Tensor x = world.full(rank + 1);
    const Work all = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    const unsigned first = line_here() - 1;
    if (rank < 2) {
      for (const bool is_async : {false, true}) {
        const distributed::CollectiveOptions options{.group = pair, .async_op = is_async};
        const auto reduce = [&] { world.dist.all_reduce(x, ReduceOp::sum, options); };
        const unsigned second = line_here() - 1;
        CHECK_THAT(refusal(reduce),
                   test::Says("KB-G003", fmt::format("all_reduce#0 ([{}] Float SUM)", world.n),
                              place(second), "group 1 writes", quoted(x), "all_reduce#1",
                              place(first), "is to write", "Work"));
      }
    }
    all.wait();
    if (rank < 2) world.dist.all_reduce(x, ReduceOp::sum, {.group = pair});
    CHECK(last_of(x) == (rank < 2 ? 20 : 10));
  });
}

TEST_CASE("what two groups only read, both may read at a time", "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    const ProcessGroup other = world.dist.new_group({0, 1});
    const Tensor x = world.full(rank + 1);
    const Tensor a = world.torch.zeros({2 * world.n}, {.dp = DPPolicy::on_one_pe()});
    const Tensor b = world.torch.zeros({2 * world.n}, {.dp = DPPolicy::on_one_pe()});
    const Work first = world.dist.all_gather_into_tensor(a, x, {.async_op = true});
    const Work second = world.dist.all_gather_into_tensor(b, x, {.group = other, .async_op = true});
    first.wait();
    second.wait();
    CHECK(last_of(a) == 2);
    CHECK(last_of(b) == 2);
  });
}

TEST_CASE(
    "collectives of one group on one tensor follow each other, and who waits for the last "
    "knows of all",
    "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    Tensor x = world.full(rank + 1);
    world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});  // 3 and 3
    const Work last = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    CHECK(refusal([&] { x.copy_(world.host(1)); }).starts_with("[KB-G003] copy_ at "));
    last.wait();
    CHECK(last_of(x) == 6);
    x.copy_(world.host(1));
    CHECK(last_of(x) == 1);
  });
}

// Each way of knowing that a work on x is done.
TEST_CASE("a work is under way until its rank knows that it is done, whatever the clock says",
          "[ccl][under_way]") {
  using Know = std::function<void(Ranks&, const Tensor&, const Work&)>;
  const std::vector<Know> ways = {
      [](Ranks&, const Tensor&, const Work& work) { work.wait(); },
      [](Ranks&, const Tensor&, const Work& work) { work.result(); },
      [](Ranks&, const Tensor&, const Work& work) {
        while (!work.is_completed()) {
        }
      },
      [](Ranks&, const Tensor& x, const Work&) { x.at({0}); },
      [](Ranks&, const Tensor& x, const Work&) { x.detach().shard_to_vector(0); },
      [](Ranks& world, const Tensor&, const Work&) { world.dist.barrier(); },
  };
  everywhere(2, [&](Ranks& world, int rank) {
    const ProcessGroup other = world.dist.new_group({0, 1});
    for (const Know& knows : ways) {
      Tensor x = world.full(rank + 1);
      const Work work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
      for (int i = 0; i < 2; ++i)
        world.dist.all_reduce(world.full(1), ReduceOp::max, {.group = other});
      world.full(0).copy_(world.host(1));  // by now it has ended, or has not
      CHECK(refusal([&] { x.copy_(world.host(1)); }).starts_with("[KB-G003] copy_ at data_under"));
      CHECK(refusal([&] { x + x; }).starts_with("[KB-G003] kernel 'add' uses tensor '"));
      knows(world, x, work);
      x.copy_(world.host(5));
      CHECK(last_of(x) == 5);
      work.wait();
    }
  });
}

TEST_CASE("a message carries the version that its tensor has at the send", "[ccl][under_way]") {
  using Write = std::function<void(Ranks&, Tensor&, int)>;
  const std::vector<Write> writes = {
      [](Ranks& world, Tensor& x, int) { world.dist.all_reduce(x); },
      [](Ranks& world, Tensor& x, int) {
        world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true}).wait();
      },
      [](Ranks& world, Tensor& x, int rank) {
        if (rank == 0) world.store_nine(x);
      },
      [](Ranks& world, Tensor& x, int rank) {
        if (rank == 0) x.copy_(world.host(9));
      },
      [](Ranks& world, Tensor& x, int rank) {
        if (rank == 0) world.dist.recv(x, 1, {.tag = 3});
        if (rank == 1) world.dist.send(world.full(9), 0, {.tag = 3});
      },
      [](Ranks& world, Tensor& x, int rank) {
        world.dist.broadcast(rank == 0 ? x : world.full(9), 1);
      },
  };
  everywhere(2, [&](Ranks& world, int rank) {
    for (const Write& write : writes) {
      Tensor x = world.full(rank + 1);
      Work sent;
      if (rank == 0) sent = world.dist.isend(reshape(x, {1, world.n}), 1);
      write(world, x, rank);
      if (rank == 0) {
        CHECK(first_of(x) != 1);
        sent.wait();
      } else {
        const Tensor y = world.full(0);
        world.dist.recv(y, 0);
        CHECK(first_of(y) == 1);
        CHECK(last_of(y) == 1);
      }
    }
  });
}

TEST_CASE("a batch that sends and receives by one tensor exchanges it, in either order",
          "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    for (const bool sends_first : {true, false}) {
      const Tensor x = world.full(rank + 1);
      std::vector<distributed::P2POp> ops = {{PointToPoint::isend, x, 1 - rank},
                                             {PointToPoint::irecv, x, 1 - rank}};
      if (!sends_first) std::ranges::reverse(ops);
      for (const Work& work : world.dist.batch_isend_irecv(ops)) work.wait();
      CHECK(first_of(x) == 2 - rank);
      CHECK(last_of(x) == 2 - rank);
    }
  });
}

TEST_CASE("what is to be received may not be touched, nor received into twice",
          "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    Tensor x = world.full(0);
    if (rank == 1) return world.dist.send(world.full(7), 0);
    const Work work = world.dist.irecv(x, 1);
    const unsigned first = line_here() - 1;
    const Tensor column = reshape(x, {world.n, 1});
    const auto check = [&](std::string_view what, unsigned line, const std::string& verb,
                           const std::string& text) {
      CHECK_THAT(text, test::Says("KB-G003", what, place(line), verb, quoted(x),
                                  "recv from rank 1 (tag 0) at " + place(first), "is to write"));
    };
    const unsigned next = line_here() + 1;
    const std::string by_reduce = refusal([&] { world.dist.all_reduce(x); });
    const std::string by_copy = refusal([&] { x.copy_(world.host(1)); });
    const std::string by_copy_of_shard = refusal([&] { x.copy_shard_(0, world.host(1)); });
    const std::string by_recv = refusal([&] { world.dist.recv(column, 1); });
    const std::string by_isend = refusal([&] { world.dist.isend(column, 1); });
    const std::string by_send = refusal([&] { world.dist.send(x, 1); });
    check(fmt::format("all_reduce#0 ([{}] Float SUM)", world.n), next, "writes", by_reduce);
    check("copy_", next + 1, "writes", by_copy);
    check("copy_shard_", next + 2, "writes", by_copy_of_shard);
    check("recv from rank 1 (tag 0)", next + 3, "writes", by_recv);
    check("send to rank 1 (tag 0)", next + 4, "reads", by_isend);
    check("send to rank 1 (tag 0)", next + 5, "reads", by_send);
    CHECK(refusal([&] {
            world.store_nine(x.detach());
          }).starts_with("[KB-G003] kernel 'store_nine' at everywhere.h:"));
    CHECK(last_of(x) == 7);
    world.store_nine(x);
    CHECK(first_of(x) == 9);
    work.wait();
  });
}

TEST_CASE("what a collective reads a kernel may read, and not store into", "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    const Tensor x = world.full(rank + 1);
    const Tensor all = world.torch.zeros({2 * world.n}, {.dp = DPPolicy::on_one_pe()});
    const Work work = world.dist.all_gather_into_tensor(all, x, {.async_op = true});
    const unsigned first = line_here() - 1;
    CHECK(last_of(x + x) == 2 * (rank + 1));
    const auto kernel = [](tl::Context& tl, tl::Pointer p) {
      tl.store(p, tl.zeros({1}, DType::f32));
    };
    const auto launch = [&] {
      world.torch.launch("clear", kernel, x);
      world.torch.ahbm.synchronize();
    };
    const unsigned second = line_here() - 3;
    CHECK_THAT(
        refusal(launch),
        test::Says("KB-G003", "tl.store", fmt::format("on sip{}.cube0.pe0", rank), "writes",
                   quoted(x), "all_gather_into_tensor#0", place(first), "still reads",
                   "before the launch at " + place(second), "kernel 'clear' at " + place(second)));
    work.wait();
    world.store_nine(x);
    CHECK(first_of(x) == 9);
    CHECK(last_of(all) == 2);
  });
}

TEST_CASE("outputs that lie in the same memory are refused, and both are named",
          "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    const Tensor x = world.full(rank + 1);
    const Tensor o = world.full(0);
    const auto text = [&](std::string_view function, std::string_view list) {
      return fmt::format(
          "[KB-C020] {}: {}[0] (tensor '{}') and {}[1] (tensor '{}') lie in the same "
          "memory, so that what they would hold is undefined; give each output "
          "memory of its own",
          function, list, o.name(), list, o.name());
    };
    const std::vector<std::vector<Tensor>> lists = {
        {o, o}, {o, reshape(o, {world.n})}, {o.detach(), o}};
    for (const std::vector<Tensor>& list : lists) {
      CHECK(refusal([&] { world.dist.all_gather(list, x); }) == text("all_gather", "tensor_list"));
      CHECK(refusal([&] {
              world.dist.all_to_all(list, {x, x});
            }) == text("all_to_all", "output_tensor_list"));
      if (rank != 0) continue;
      CHECK(refusal([&] { world.dist.gather(x, list, {.dst = 0}); }) ==
            text("gather", "gather_list"));
    }
    CHECK(refusal([&] {
            world.dist.batch_isend_irecv({{PointToPoint::irecv, o, 1 - rank},
                                          {PointToPoint::isend, o, 1 - rank},
                                          {PointToPoint::irecv, o.detach(), 1 - rank}});
          })
              .starts_with(
                  fmt::format("[KB-C020] batch_isend_irecv: p2p_op_list[0] (tensor '{}') and "
                              "p2p_op_list[2] (tensor '{}') lie in the same memory",
                              o.name(), o.name())));
    const Tensor other = world.full(0);
    world.dist.all_gather({o, other}, x);
    CHECK(last_of(o) == 1);
    CHECK(last_of(other) == 2);
  });
}

TEST_CASE("inputs that are overwritten are read before", "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    const Tensor x = world.full(rank + 1);
    const Tensor y = world.full(0);
    world.dist.all_gather({x, y}, x);
    CHECK(last_of(x) == 1);
    CHECK(last_of(y) == 2);
    world.dist.all_gather({y, x}, x);  // of 1 and 1, into the other one
    CHECK(last_of(x) == 1);
    std::vector<float> elements(static_cast<std::size_t>(2 * world.n));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      elements[i] = static_cast<float>(10 * rank) + (i < elements.size() / 2 ? 0.0F : 1.0F);
    }
    Tensor both = world.torch.zeros({2 * world.n}, {.dp = DPPolicy::on_one_pe()});
    both.copy_(RuntimeContext::tensor(elements, {2 * world.n}));
    world.dist.all_to_all_single(both, both);
    CHECK(first_of(both) == rank);
    CHECK(last_of(both) == 10 + rank);
    const Tensor a = world.full(1);
    const Tensor b = world.full(2);
    world.dist.all_to_all({b, a}, {a, b});
    CHECK(last_of(b) == 1 + rank);
    CHECK(last_of(a) == 1 + rank);
  });
}

TEST_CASE("tensors that outlive their ranks may be used: join() knows of all works",
          "[ccl][under_way]") {
  for (const std::string backend : {"local", "ahbm"}) {
    Ranks world(round_topology(), backend, 10);
    std::vector<Tensor> kept(2);
    run_on_devices(world.torch, 2, [&](int rank) {
      Tensor& x = kept[static_cast<std::size_t>(rank)];
      x = world.full(rank + 1);
      world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    });
    for (Tensor& x : kept) {
      x.copy_(world.host(4));
      CHECK(last_of(x + x) == 8);
    }
  }
}

TEST_CASE("who catches a refusal may wait and call again: nothing of the call has happened",
          "[ccl][under_way]") {
  everywhere(2, [](Ranks& world, int rank) {
    const ProcessGroup other = world.dist.new_group({0, 1});
    const Tensor x = world.full(rank + 1);
    const Work work = world.dist.all_reduce(x, ReduceOp::sum, {.async_op = true});
    if (rank == 1) {
      CHECK(refusal([&] {
              world.dist.all_reduce(x, ReduceOp::sum, {.group = other});
            }).starts_with("[KB-G003] all_reduce#0 "));
    }
    work.wait();
    world.dist.all_reduce(x, ReduceOp::sum, {.group = other});
    CHECK(last_of(x) == 6);
  });
}

}  // namespace
}  // namespace kernbench::test::data_under_way_test
