// Every collective and message, in groups of all kinds, over tensors that lie anywhere: every
// element of every copy is what it must be.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "ccl/core/algorithm.h"
#include "ccl/core/config.h"
#include "sim_engine/topology/topology.h"
#include "test/ccl/group_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::collectives_exact_test {
namespace {

using distributed::CollectiveKind;

// A group and the SIPs of the world: 2 x 2 PEs each.
struct Case {
  Topology topology;
  std::vector<int> ranks;
  ccl::Config config = {};
};

// Trees and ways that are packed, for all collectives.
ccl::Config packed() {
  std::string rules = "rules:\n";
  for (const CollectiveKind kind : ccl::kPlannedKinds) {
    const bool has_pairs = kind == CollectiveKind::all_to_all || kind == CollectiveKind::gather ||
                           kind == CollectiveKind::scatter;
    rules += fmt::format("  - {}: {{algorithm: {}}}\n", traits_of(kind).name,
                         has_pairs ? "packed_ways" : "packed_trees");
  }
  return ccl::Config::parse(rules);
}

std::vector<Case> groups() {
  std::vector<Case> all;
  for (int size = 2; size <= 6; ++size) {
    std::vector<int> world(static_cast<std::size_t>(size));
    std::iota(world.begin(), world.end(), 0);
    all.push_back({round_topology(SipTopology::ring_1d, size, 1, 2, 1), world});
  }
  // PEs are dealt to the parts that travel different ways on squares.
  all.push_back({round_topology(SipTopology::torus_2d, 2, 2, 2, 1), {0, 1, 2, 3}});
  all.push_back({round_topology(SipTopology::mesh_2d_no_wrap, 2, 2, 2, 1), {0, 1, 2, 3}});
  const Topology torus = round_topology(SipTopology::torus_2d, 3, 2, 2, 1);
  const Topology mesh = round_topology(SipTopology::mesh_2d_no_wrap, 6, 1, 2, 1);
  for (const std::vector<int>& ranks : std::vector<std::vector<int>>{
           {3}, {1, 4}, {5, 0, 3}, {2, 5, 1, 4}, {0, 1, 3, 4, 5}, {5, 4, 3, 2, 1, 0}}) {
    all.push_back({torus, ranks});
    all.push_back({mesh, ranks});
    if (ranks.size() > 2) all.push_back({torus, ranks, packed()});
  }
  return all;
}

std::vector<Shape> shapes(int size) {
  return {{0}, {1}, {2}, {size - 1}, {size + 1}, {63}, {1025}, {5, 3}, {4, 2, 6}, {33, 64}};
}

DType dtype_of(std::size_t number) {
  return kDTypes[number % kDTypes.size()];
}

// One call on each member; what is wrong with what it took.
using Call = std::function<std::string(const Member&, const Shape&, DType, const DPPolicy& gives,
                                       const DPPolicy& takes)>;

// Every shape, with placements and types that take turns.
void check_everywhere(const Call& call) {
  for (const Case& c : groups()) {
    const auto program = [&](const Member& member) {
      std::size_t number = 0;
      for (const Shape& shape : shapes(member.size())) {
        for (int turn = 0; turn < 3; ++turn, ++number) {
          const std::size_t count = placements().size();
          const DPPolicy& gives = placements()[number % count];
          // The output may be placed differently on each rank.
          const DPPolicy& takes =
              placements()[(3 * number + 1 + static_cast<std::size_t>(member.rank)) % count];
          const std::string wrong = call(member, shape, dtype_of(number), gives, takes);
          if (!wrong.empty()) {
            return fmt::format("{} {} from {} to {}: {}", to_string(shape),
                               name_of(dtype_of(number)), to_string(gives), to_string(takes),
                               wrong);
          }
        }
      }
      return std::string();
    };
    CAPTURE(c.ranks, c.topology.system.sip_count);
    const std::vector<std::string> wrong =
        run_group(c.topology, c.ranks, program, {.ccl = c.config});
    CHECK(fmt::format("{}", fmt::join(wrong, "\n")) == "");
  }
}

int global(const Member& member, int rank) {
  return member.ranks[static_cast<std::size_t>(rank)];
}

// Reduces the elements that all members bring.
Elements reduced(const Member& member, ReduceOp op, std::int64_t count, std::int64_t first = 0) {
  Elements all = elements_of(global(member, 0), count, first);
  for (int rank = 1; rank < member.size(); ++rank) {
    for (std::int64_t i = 0; i < count; ++i) {
      double& sum = all[static_cast<std::size_t>(i)];
      const double next = brought(global(member, rank), first + i);
      if (op == ReduceOp::sum || op == ReduceOp::avg) sum += next;
      if (op == ReduceOp::product) sum *= next;
      if (op == ReduceOp::min) sum = std::min(sum, next);
      if (op == ReduceOp::max) sum = std::max(sum, next);
    }
  }
  return all;
}

// The only rounding of an average is that of the division to the type.
Elements divided(const Member& member, Elements sums, DType dtype) {
  for (double& sum : sums) {
    const float quotient = static_cast<float>(sum) / static_cast<float>(member.size());
    sum = RuntimeContext(free_topology()).full({1}, quotient, {.dtype = dtype}).item();
  }
  return sums;
}

Elements joined(Elements a, const Elements& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A list of `size` blocks in one tensor.
Shape times(const Shape& shape, int size) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes.front() *= size;
  return Shape(sizes);
}

constexpr double kOld = 77;  // in what is to be overwritten

Tensor blank(const Member& member, const Shape& shape, DType dtype, const DPPolicy& dp) {
  return make(member.torch, shape, {.dtype = dtype, .dp = dp},
              Elements(static_cast<std::size_t>(shape.numel()), kOld));
}

TEST_CASE("messages bring their elements between any two placements", "[ccl][collectives]") {
  check_everywhere([](const Member& m, const Shape& shape, DType dtype, const DPPolicy& gives,
                      const DPPolicy& takes) -> std::string {
    if (m.size() == 1) return {};
    const std::int64_t n = shape.numel();
    // Round the group: even members send first.
    const int to = global(m, (m.rank + 1) % m.size());
    const int from = global(m, (m.rank + m.size() - 1) % m.size());
    const Tensor out =
        make(m.torch, shape, {.dtype = dtype, .dp = gives}, elements_of(global(m, m.rank), n));
    const Tensor in = blank(m, shape, dtype, takes);
    const distributed::Work sent = m.torch.distributed.isend(out, to, {.group = m.group});
    const int source = m.torch.distributed.recv(in, from, {.group = m.group});
    sent.wait();
    if (source != from) return fmt::format("from rank {}", source);
    return wrong(in, elements_of(from, n));
  });
}

TEST_CASE("broadcast brings the root's elements to all", "[ccl][collectives]") {
  check_everywhere(
      [](const Member& m, const Shape& shape, DType dtype, const DPPolicy& dp, const DPPolicy&) {
        const auto root = static_cast<int>(shape.numel()) % m.size();
        const Tensor x = m.rank == root ? make(m.torch, shape, {.dtype = dtype, .dp = dp},
                                               elements_of(global(m, root), shape.numel()))
                                        : blank(m, shape, dtype, dp);
        m.torch.distributed.broadcast(x, global(m, root), {.group = m.group});
        return wrong(x, elements_of(global(m, root), shape.numel()));
      });
}

TEST_CASE("all_gather puts the members' elements one after the other", "[ccl][collectives]") {
  check_everywhere([](const Member& m, const Shape& shape, DType dtype, const DPPolicy& gives,
                      const DPPolicy& takes) {
    const Tensor in = make(m.torch, shape, {.dtype = dtype, .dp = gives},
                           elements_of(global(m, m.rank), shape.numel()));
    const Tensor out = blank(m, times(shape, m.size()), dtype, takes);
    m.torch.distributed.all_gather_into_tensor(out, in, {.group = m.group});
    Elements expected;
    std::vector<Tensor> list;
    for (int rank = 0; rank < m.size(); ++rank) {
      expected = joined(expected, elements_of(global(m, rank), shape.numel()));
      list.push_back(blank(m, shape, dtype, placements()[static_cast<std::size_t>(rank)]));
    }
    std::string said = wrong(out, expected);
    m.torch.distributed.all_gather(list, in, {.group = m.group});
    for (int rank = 0; rank < m.size() && said.empty(); ++rank) {
      said =
          wrong(list[static_cast<std::size_t>(rank)], elements_of(global(m, rank), shape.numel()));
    }
    return said;
  });
}

TEST_CASE("reduce_scatter gives each member its block of the reduction", "[ccl][collectives]") {
  check_everywhere([](const Member& m, const Shape& shape, DType dtype, const DPPolicy& gives,
                      const DPPolicy& takes) {
    const std::int64_t n = shape.numel();
    const Tensor in = make(m.torch, times(shape, m.size()), {.dtype = dtype, .dp = takes},
                           elements_of(global(m, m.rank), n * m.size()));
    const Tensor out = blank(m, shape, dtype, gives);
    const ReduceOp op = n % 2 == 0 ? ReduceOp::sum : ReduceOp::max;
    m.torch.distributed.reduce_scatter_tensor(out, in, op, {.group = m.group});
    return wrong(out, reduced(m, op, n, n * m.rank));
  });
}

TEST_CASE("all_reduce with every operation", "[ccl][collectives][exhaustive]") {
  check_everywhere(
      [](const Member& m, const Shape& shape, DType dtype, const DPPolicy& dp, const DPPolicy&) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
          const Tensor x = make(m.torch, shape, {.dtype = dtype, .dp = dp},
                                elements_of(global(m, m.rank), shape.numel()));
          m.torch.distributed.all_reduce(x, op, {.group = m.group});
          const std::string said = wrong(x, reduced(m, op, shape.numel()));
          if (!said.empty()) return fmt::format("{}: {}", name_of(op), said);
        }
        return std::string();
      });
}

TEST_CASE("an average is the sum divided by the number of members", "[ccl][collectives]") {
  for (const DType dtype : kDTypes) {
    const auto wrong_ones = run_group(
        round_topology(SipTopology::ring_1d, 3, 1, 2, 1), {0, 1, 2}, [&](const Member& m) {
          const Tensor x =
              make(m.torch, {41}, {.dtype = dtype, .dp = placements()[3]}, elements_of(m.rank, 41));
          m.torch.distributed.all_reduce(x, ReduceOp::avg);
          return wrong(x, divided(m, reduced(m, ReduceOp::sum, 41), dtype));
        });
    CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
  }
}

TEST_CASE("reduce brings the reduction to the root and leaves the others' tensors",
          "[ccl][collectives]") {
  check_everywhere(
      [](const Member& m, const Shape& shape, DType dtype, const DPPolicy& dp, const DPPolicy&) {
        const std::int64_t n = shape.numel();
        const auto root = static_cast<int>(n) % m.size();
        const Tensor x =
            make(m.torch, shape, {.dtype = dtype, .dp = dp}, elements_of(global(m, m.rank), n));
        m.torch.distributed.reduce(x, global(m, root), ReduceOp::sum, {.group = m.group});
        if (m.rank == root) return wrong(x, reduced(m, ReduceOp::sum, n));
        const std::vector<float> have = x.to_vector();
        const Elements own = elements_of(global(m, m.rank), n);
        const bool stayed = std::equal(own.begin(), own.end(), have.begin(), have.end());
        return std::string(stayed && x.dp() == dp ? "" : "did not stay as it was");
      });
}

TEST_CASE("gather and scatter are each other's inverse", "[ccl][collectives]") {
  check_everywhere(
      [](const Member& m, const Shape& shape, DType dtype, const DPPolicy& gives, const DPPolicy&) {
        const std::int64_t n = shape.numel();
        const auto root = static_cast<int>(n) % m.size();
        const Tensor own =
            make(m.torch, shape, {.dtype = dtype, .dp = gives}, elements_of(global(m, m.rank), n));
        std::vector<Tensor> list;
        for (int rank = 0; m.rank == root && rank < m.size(); ++rank) {
          list.push_back(blank(m, shape, dtype, placements()[static_cast<std::size_t>(rank) + 2]));
        }
        m.torch.distributed.gather(own, list, {.dst = global(m, root), .group = m.group});
        std::string said;
        for (std::size_t rank = 0; rank < list.size() && said.empty(); ++rank) {
          said = wrong(list[rank], elements_of(m.ranks[rank], n));
        }
        const Tensor in = blank(m, shape, dtype, gives);
        m.torch.distributed.scatter(in, list, {.src = global(m, root), .group = m.group});
        return said.empty() ? wrong(in, elements_of(global(m, m.rank), n)) : said;
      });
}

TEST_CASE("all_to_all brings each member its block of every other one", "[ccl][collectives]") {
  check_everywhere([](const Member& m, const Shape& shape, DType dtype, const DPPolicy& gives,
                      const DPPolicy& takes) {
    const std::int64_t n = shape.numel();
    const Tensor in = make(m.torch, times(shape, m.size()), {.dtype = dtype, .dp = gives},
                           elements_of(global(m, m.rank), n * m.size()));
    const Tensor out = blank(m, times(shape, m.size()), dtype, takes);
    m.torch.distributed.all_to_all_single(out, in, {}, {}, {.group = m.group});
    Elements expected;
    for (int rank = 0; rank < m.size(); ++rank) {
      expected = joined(expected, elements_of(global(m, rank), n, n * m.rank));
    }
    return wrong(out, expected);
  });
}

TEST_CASE("all_to_all with splits", "[ccl][collectives]") {
  // Member r gives (r + s) % 4 rows of 3 to member s.
  for (const Case& c : groups()) {
    const auto wrong_ones = run_group(c.topology, c.ranks, [](const Member& m) {
      std::vector<std::int64_t> out_splits;
      Elements expected;
      for (int s = 0; s < m.size(); ++s) {
        out_splits.push_back((m.rank + s) % 4);
        std::int64_t first = 0;
        for (int before = 0; before < m.rank; ++before) first += (s + before) % 4;
        expected = joined(expected, elements_of(global(m, s), out_splits.back() * 3, first * 3));
      }
      const std::int64_t rows = std::accumulate(out_splits.begin(), out_splits.end(), 0L);
      const Tensor in = make(m.torch, {rows, 3}, {.dp = placements()[3]},
                             elements_of(global(m, m.rank), rows * 3));
      const Tensor out = blank(m, {rows, 3}, DType::f32, placements()[2]);
      m.torch.distributed.all_to_all_single(out, in, out_splits, out_splits, {.group = m.group});
      return wrong(out, expected);
    });
    CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
  }
}

TEST_CASE("collectives on the shipped topologies, of all placements",
          "[ccl][collectives][exhaustive]") {
  for (const char* name : {"default", "torus_2d_2x3", "mesh_2d_no_wrap_2x3"}) {
    const Topology topology =
        Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name));
    const bool has_six = topology.system.sip_count == 6;
    const std::vector<int> ranks = has_six ? std::vector{0, 5, 2} : std::vector{0, 1};
    const auto wrong_ones = run_group(topology, ranks, [](const Member& m) {
      const Shape shape{64, 256};
      std::string said;
      for (const DPPolicy& dp : {DPPolicy{}, placements()[2], placements()[4]}) {
        const Tensor x = make(m.torch, shape, {.dtype = DType::f16, .dp = dp},
                              elements_of(m.rank, shape.numel()));
        m.torch.distributed.broadcast(x, m.ranks.back(), {.group = m.group});
        said += wrong(x, elements_of(m.size() - 1, shape.numel()));
        m.torch.distributed.all_reduce(x, ReduceOp::max, {.group = m.group});
        said += wrong(x, elements_of(m.size() - 1, shape.numel()));
        const Tensor all = blank(m, times(shape, m.size()), DType::f16, dp);
        m.torch.distributed.all_gather_into_tensor(all, x, {.group = m.group});
        const Tensor back = blank(m, times(shape, m.size()), DType::f16, dp);
        m.torch.distributed.all_to_all_single(back, all, {}, {}, {.group = m.group});
        Elements expected;
        for (int i = 0; i < m.size(); ++i) {
          expected = joined(expected, elements_of(m.size() - 1, shape.numel()));
        }
        said += wrong(back, expected);
      }
      return said;
    });
    CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
  }
}

TEST_CASE("barriers of sub-groups hold until the last member has come", "[ccl][collectives]") {
  Time last{0};
  std::vector<Time> passed;
  const auto wrong_ones =
      run_group(round_topology(SipTopology::ring_1d, 6, 1, 2, 1), {4, 1, 2}, [&](const Member& m) {
        Tensor x = m.torch.zeros({64 * (m.rank + 1)});
        x.copy_(m.torch.from_blob(std::vector<float>(x.numel(), 1).data(), x.shape()));
        last = std::max(last, m.torch.engine().now());
        m.torch.distributed.barrier({.group = m.group});
        passed.push_back(m.torch.engine().now());
        return std::string();
      });
  REQUIRE(passed.size() == 3);
  for (const Time time : passed) CHECK(time > last);
}

}  // namespace
}  // namespace kernbench::test::collectives_exact_test
