// send, recv and their kin.

#include <catch2/catch.hpp>
#include <set>

#include "runtime/torch/run_ranks.h"
#include "test/runtime/distributed/local_world.h"
#include "test/support/error_text.h"

namespace kernbench::test::messages_test {
namespace {

using distributed::P2POp;
using distributed::PointToPoint;
using distributed::Work;
using Elements = std::vector<float>;

TEST_CASE("a message arrives, whoever calls first", "[distributed][messages]") {
  LocalWorld world(2);
  for (const int sender : {0, 1}) {
    world.spawn([&](int rank) {
      if (rank == sender) return world.dist.send(world.tensor({1, 2, 3}), 1 - rank);
      const Tensor x = world.zeros({3});
      CHECK(world.dist.recv(x, sender) == sender);
      CHECK(x.to_vector() == Elements{1, 2, 3});
    });
  }
}

TEST_CASE("messages match by tag, and of one tag by their order", "[distributed][messages]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    if (rank == 0) {
      std::vector<Work> works;
      const std::vector<Tensor> sent = {world.tensor({1}), world.tensor({2}), world.tensor({3})};
      works.push_back(world.dist.isend(sent[0], 1, {.tag = 7}));
      works.push_back(world.dist.isend(sent[1], 1, {.tag = 8}));
      works.push_back(world.dist.isend(sent[2], 1, {.tag = 7}));
      for (const Work& work : works) CHECK(work.wait());
      return;
    }
    const Tensor x = world.zeros({1});
    world.dist.recv(x, 0, {.tag = 8});
    CHECK(x.item() == 2);
    world.dist.recv(x, 0, {.tag = 7});
    CHECK(x.item() == 1);
    world.dist.recv(x, 0, {.tag = 7});
    CHECK(x.item() == 3);
  });
}

TEST_CASE("recv from any rank says who it was", "[distributed][messages]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    if (rank != 1) return world.dist.send(world.tensor({static_cast<float>(rank)}), 1);
    const Tensor x = world.zeros({1});
    std::set<int> senders;
    for (int i = 0; i < 2; ++i) {
      const int sender = world.dist.recv(x);
      CHECK(x.item() == static_cast<float>(sender));
      senders.insert(sender);
    }
    CHECK(senders == std::set<int>{0, 2});
  });
}

TEST_CASE("a shorter message fills the first elements", "[distributed][messages]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    if (rank == 0) return world.dist.send(world.tensor({1, 2}), 1);
    const Tensor x = world.tensor({9, 9, 9});
    world.dist.recv(x, 0);
    CHECK(x.to_vector() == Elements{1, 2, 9});
  });
}

TEST_CASE("a longer message, or one of another type, is refused on both sides",
          "[distributed][messages]") {
  LocalWorld world(2);
  std::vector<std::string> texts(2);
  world.spawn([&](int rank) {
    const Tensor x = rank == 0 ? world.tensor({1, 2}) : world.zeros({1}, DType::f16);
    texts[static_cast<std::size_t>(rank)] = LocalWorld::refusal(
        [&] { rank == 0 ? world.dist.send(x, 1) : (void)world.dist.recv(x, 0); });
  });
  CHECK(texts[0] == texts[1]);
  CHECK_THAT(texts[0], test::Says("KB-C022", "0", "2", "1", "messages_test.cpp"));
}

TEST_CASE("send and recv are a rendezvous: two that send first wait for ever",
          "[distributed][messages]") {
  LocalWorld world(2);
  const std::string text = error_of<DeadlockError>([&] {
    world.spawn([&](int rank) {
      const Tensor x = world.tensor({1});
      world.dist.send(x, 1 - rank);
      world.dist.recv(x, 1 - rank);
    });
  });
  CHECK(text.starts_with("[KB-D001] deadlock: 2 ranks and 0 kernels blocked"));
  CHECK(text.find("rank 0 waits for the Work of send to rank 1 (tag 0) at messages_test.cpp:") !=
        std::string::npos);
  CHECK(text.find("\n  wait-for cycle: rank 0 -> rank 1 -> rank 0") != std::string::npos);
}

TEST_CASE("who waits for a rank that has returned, or never was there, is told so",
          "[distributed][messages]") {
  LocalWorld world(3);
  const auto text = [&](int ranks) {
    return error_of<DeadlockError>([&] {
      run_on_devices(world.torch, ranks, [&](int rank) {
        if (rank == 1) world.dist.recv(world.zeros({1}), ranks == 3 ? 0 : 2);
      });
    });
  };
  const std::string returned = text(3);
  CHECK_THAT(returned, test::Says("KB-D001", "1", "0", "0 ns", "messages_test.cpp"));
  CHECK(returned.ends_with(" (rank 0 had returned) since t=0 ns"));
  CHECK(text(2).ends_with(" (rank 2 was never started) since t=0 ns"));
}

TEST_CASE("a ring of batch_isend_irecv does not wait for itself", "[distributed][messages]") {
  for (const int size : {2, 3, 5}) {
    LocalWorld world(size);
    world.spawn([&](int rank) {
      const Tensor mine = world.tensor({static_cast<float>(rank)});
      const Tensor theirs = world.zeros({1});
      const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
      const std::vector<Work> works = world.dist.batch_isend_irecv(
          {{PointToPoint::isend, mine, next}, {PointToPoint::irecv, theirs, previous}});
      REQUIRE(works.size() == 2);
      for (const Work& work : works) work.wait();
      CHECK(theirs.item() == static_cast<float>(previous));
      CHECK(works[1].source_rank() == previous);
    });
  }
}

TEST_CASE("peers in a group are global ranks, or its own by group_dst", "[distributed][messages]") {
  LocalWorld world(3);
  world.spawn([&](int rank) {
    const auto pair = world.dist.new_group({1, 2});
    if (rank == 1) {
      world.dist.send(world.tensor({5}), 2, {.group = pair});
      world.dist.send(world.tensor({6}), {.group = pair, .group_dst = 1});
    }
    if (rank != 2) return;
    const Tensor x = world.zeros({1});
    CHECK(world.dist.recv(x, {.group = pair, .group_src = 0}) == 1);
    CHECK(x.item() == 5);
    CHECK(world.dist.recv(x, 1, {.group = pair}) == 1);
    CHECK(x.item() == 6);
  });
}

TEST_CASE("a rank may send to itself, if it does not block", "[distributed][messages]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.zeros({1});
    const Work send = world.dist.isend(world.tensor({static_cast<float>(rank + 1)}), rank);
    const Work receive = world.dist.irecv(x, rank);
    send.wait();
    receive.wait();
    CHECK(x.item() == static_cast<float>(rank + 1));
  });
}

TEST_CASE("what wrong messages are told", "[distributed][messages]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.zeros({1});
    const auto refusal = [](auto action) { return LocalWorld::refusal(action); };
    CHECK_THAT(refusal([&] { world.dist.send(x, rank); }),
               test::Says("KB-C020", "destination", "current", "process"));
    CHECK_THAT(refusal([&] { world.dist.recv(x, rank); }),
               test::Says("KB-C020", "should", "current", "process"));
    CHECK_THAT(refusal([&] { world.dist.send(x, 7); }),
               test::Says("KB-C020", "invalid", "destination", "7"));
    CHECK(refusal([&] { world.dist.irecv(x, -1); }) ==
          "[KB-C020] ProcessGroupLocal::irecv: invalid source rank: -1");
    CHECK(refusal([&] { world.dist.send(x, {.dst = 1, .group_dst = 1}); }) ==
          "[KB-C020] Can't specify both group_rank and global_rank");
    CHECK(refusal([&] { world.dist.send(x, distributed::SendOptions{}); }) ==
          "[KB-C020] Must specify global_rank or group_rank");
    CHECK(refusal([&] {
            world.dist.batch_isend_irecv({});
          }).starts_with("[KB-C020] list index out of range"));
    CHECK_THAT(refusal([&] {
                 world.dist.batch_isend_irecv({{static_cast<PointToPoint>(9), x, 0}});
               }),
               test::Says("KB-C020", "`op`", "`. Expected `", "` to be of type `",
                          "`torch.distributed.isend`", "` or `", "`torch.distributed.irecv`"));
    const auto pair = world.dist.new_group({0, 1});
    CHECK(refusal([&] {
            world.dist.batch_isend_irecv(
                {{PointToPoint::isend, x, 1 - rank}, {PointToPoint::irecv, x, 1 - rank, pair}});
          }) == "[KB-C020] All ops need to use the same group.");
  });
}

TEST_CASE("views without elements are sent and received, wherever they begin",
          "[distributed][messages]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    const std::vector<Tensor> views = {world.zeros({0, 4}).narrow(1, 2, 1),
                                       world.zeros({0, 4}).slice(1, 1, 4, 2),
                                       world.zeros({3, 0})[2],
                                       world.zeros({4}).narrow(0, 3, 0),
                                       world.zeros({2, 3}).slice(1, 3),
                                       world.zeros({0, 3, 2}).transpose(1, 2).select(1, 1)};
    for (const Tensor& view : views) {
      CAPTURE(view.shape());
      CHECK(view.is_contiguous());
      rank == 0 ? world.dist.isend(view, 1).wait() : world.dist.irecv(view, 0).wait();
      view.copy_(world.zeros(view.shape()));
      view.copy_(RuntimeContext::tensor(Elements{}, view.shape()));
      CHECK(view.to_vector().empty());
    }
  });
}

}  // namespace
}  // namespace kernbench::test::messages_test
