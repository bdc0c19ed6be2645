// rank = PE: every collective of torch over PEs, for which one driver calls.  A tensor's shard on a
// PE is what torch would have on that rank.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>

#include "ccl/core/layout.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::pe_collectives_test {
namespace {

constexpr std::int64_t kColumns = 3;

class Driver {
 public:
  explicit Driver(int ranks)
      : config_(ccl::Config::parse(
            fmt::format("defaults: {{algorithm: ring_allreduce, world_size: {}}}", ranks))),
        torch(round_topology(SipTopology::ring_1d, 2, 1, 2, 2), {.ccl = config_}) {
    torch.distributed.init_process_group("ahbm");
  }

 private:
  const ccl::Config config_;

 public:
  RuntimeContext torch;

  int ranks() { return torch.distributed.get_world_size(); }

  // A matrix of `rows` rows on each rank; `of` says what lies there.
  using Element = std::function<float(int rank, std::int64_t index)>;
  Tensor matrix(std::int64_t rows, const Element& of) {
    Tensor x = torch.empty({rows, ranks() * kColumns},
                           ccl::Layout(torch.topology(), config_).placement({}));
    for (int rank = 0; rank < ranks(); ++rank) {
      std::vector<float> elements;
      for (std::int64_t i = 0; i < rows * kColumns; ++i) elements.push_back(of(rank, i));
      x.copy_shard_(static_cast<std::size_t>(rank),
                    RuntimeContext::tensor(elements, {rows, kColumns}));
    }
    return x;
  }
  Tensor numbered(std::int64_t rows) {
    return matrix(rows, [](int rank, std::int64_t i) { return small_integer(rank, 0, i); });
  }

  // Every rank's shard must be as `of` says.
  void check(const Tensor& x, const Element& of) {
    for (int rank = 0; rank < ranks(); ++rank) {
      const std::vector<float> shard = x.shard_to_vector(static_cast<std::size_t>(rank));
      for (std::size_t i = 0; i < shard.size(); ++i) {
        CAPTURE(rank, i);
        REQUIRE(shard[i] == of(rank, static_cast<std::int64_t>(i)));
      }
    }
  }
  float sum_at(std::int64_t index) {
    float sum = 0;
    for (int rank = 0; rank < ranks(); ++rank) sum += small_integer(rank, 0, index);
    return sum;
  }
};

const auto kNothing = [](int, std::int64_t) { return -1.0F; };

TEST_CASE("PEs as ranks: a broadcast from, and a reduction to, each of them", "[ccl][rank_pe]") {
  Driver driver(GENERATE(1, 2, 4, 8, 16));
  for (int root = 0; root < driver.ranks(); root += 3) {
    CAPTURE(driver.ranks(), root);
    const Tensor sent = driver.numbered(5);
    driver.torch.distributed.broadcast(sent, root);
    driver.check(sent, [&](int, std::int64_t i) { return small_integer(root, 0, i); });

    const Tensor summed = driver.numbered(5);
    driver.torch.distributed.reduce(summed, root);
    driver.check(summed, [&](int rank, std::int64_t i) {
      return rank == root ? driver.sum_at(i) : small_integer(rank, 0, i);
    });
  }
}

TEST_CASE("PEs as ranks: all_gather, whole and as a list", "[ccl][rank_pe]") {
  Driver driver(GENERATE(2, 4, 8, 16));
  constexpr std::int64_t kRows = 5;
  const Tensor own = driver.numbered(kRows);
  const Tensor all = driver.matrix(kRows * driver.ranks(), kNothing);
  driver.torch.distributed.all_gather_into_tensor(all, own);
  driver.check(all, [](int, std::int64_t i) {
    return small_integer(static_cast<int>(i / (kRows * kColumns)), 0, i % (kRows * kColumns));
  });
  std::vector<Tensor> list;
  for (int i = 0; i < driver.ranks(); ++i) list.push_back(driver.matrix(kRows, kNothing));
  driver.torch.distributed.all_gather(list, own);
  for (int from = 0; from < driver.ranks(); ++from) {
    driver.check(list[static_cast<std::size_t>(from)],
                 [&](int, std::int64_t i) { return small_integer(from, 0, i); });
  }
}

TEST_CASE("PEs as ranks: reduce_scatter adds, and takes the greatest", "[ccl][rank_pe]") {
  Driver driver(GENERATE(2, 4, 8, 16));
  constexpr std::int64_t kRows = 5;
  const Tensor all = driver.numbered(kRows * driver.ranks());
  const Tensor own = driver.matrix(kRows, kNothing);
  driver.torch.distributed.reduce_scatter_tensor(own, all);
  driver.check(
      own, [&](int rank, std::int64_t i) { return driver.sum_at(rank * kRows * kColumns + i); });
  driver.torch.distributed.reduce_scatter_tensor(own, all, ReduceOp::max);
  driver.check(own, [&](int rank, std::int64_t i) {
    float most = small_integer(0, 0, rank * kRows * kColumns + i);
    for (int other = 1; other < driver.ranks(); ++other) {
      most = std::max(most, small_integer(other, 0, rank * kRows * kColumns + i));
    }
    return most;
  });
}

TEST_CASE("PEs as ranks: all_to_all exchanges the ranks' blocks", "[ccl][rank_pe]") {
  Driver driver(GENERATE(2, 4, 8, 16));
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kBlock = kRows * kColumns;
  const Tensor input = driver.numbered(kRows * driver.ranks());
  const Tensor output = driver.matrix(kRows * driver.ranks(), kNothing);
  driver.torch.distributed.all_to_all_single(output, input);
  driver.check(output, [](int rank, std::int64_t i) {
    return small_integer(static_cast<int>(i / kBlock), 0, rank * kBlock + i % kBlock);
  });
}

TEST_CASE("PEs as ranks: what a single driver cannot say is refused", "[ccl][rank_pe][errors]") {
  Driver driver(4);
  const Tensor x = driver.numbered(1);
  const Tensor lists = driver.numbered(4);
  std::vector<Tensor> list;
  for (int i = 0; i < 4; ++i) list.push_back(driver.numbered(1));
  const auto refused = [](const std::function<void()>& call) {
    CHECK_THROWS_MATCHES(call(), CollectiveError, Says("KB-C023", "4 PEs"));
  };
  refused([&] { driver.torch.distributed.gather(x, list); });
  refused([&] { driver.torch.distributed.scatter(x, list); });
  refused([&] {
    driver.torch.distributed.all_to_all_single(lists, lists, {1, 1, 2, 0}, {1, 1, 2, 0});
  });
  CHECK_THROWS_AS(driver.torch.distributed.send(x, 1), Error);
  CHECK_THROWS_AS(driver.torch.distributed.broadcast(x, 4), Error);
}

}  // namespace
}  // namespace kernbench::test::pe_collectives_test
