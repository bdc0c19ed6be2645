// A group of one has nobody to talk to: what it has already costs nothing (PYTORCH.md 1.2.8).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>

#include "test/ccl/group_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::group_of_one_test {
namespace {

using distributed::ProcessGroup;
using distributed::Work;

// One call of a collective by a member, of a tensor that it gives and takes.
struct InPlace {
  const char* name;
  std::function<Work(const Member&, const Tensor&)> call;
};

std::vector<InPlace> in_place() {
  const auto dist = [](const Member& m) -> auto& {
    return m.torch.distributed;
  };
  const auto own = [](const Member& m) { return m.ranks.front(); };
  return {
      {"all_reduce",
       [=](auto& m, auto& x) {
         return dist(m).all_reduce(x, ReduceOp::sum, {.group = m.group, .async_op = true});
       }},
      {"average",
       [=](auto& m, auto& x) {
         return dist(m).all_reduce(x, ReduceOp::avg, {.group = m.group, .async_op = true});
       }},
      {"broadcast",
       [=](auto& m, auto& x) {
         return dist(m).broadcast(x, own(m), {.group = m.group, .async_op = true});
       }},
      {"reduce",
       [=](auto& m, auto& x) {
         return dist(m).reduce(x, own(m), ReduceOp::max, {.group = m.group, .async_op = true});
       }},
      {"all_gather",
       [=](auto& m, auto& x) {
         return dist(m).all_gather({x}, x, {.group = m.group, .async_op = true});
       }},
      {"all_gather_into_tensor",
       [=](auto& m, auto& x) {
         return dist(m).all_gather_into_tensor(x, x, {.group = m.group, .async_op = true});
       }},
      {"reduce_scatter",
       [=](auto& m, auto& x) {
         return dist(m).reduce_scatter(x, {x}, ReduceOp::sum, {.group = m.group, .async_op = true});
       }},
      {"reduce_scatter_tensor",
       [=](auto& m, auto& x) {
         return dist(m).reduce_scatter_tensor(x, x, ReduceOp::avg,
                                              {.group = m.group, .async_op = true});
       }},
      {"all_to_all",
       [=](auto& m, auto& x) {
         return dist(m).all_to_all({x}, {x}, {.group = m.group, .async_op = true});
       }},
      {"all_to_all_single",
       [=](auto& m, auto& x) {
         return dist(m).all_to_all_single(x, x, {}, {}, {.group = m.group, .async_op = true});
       }},
      {"gather",
       [=](auto& m, auto& x) {
         return dist(m).gather(x, {x}, {.dst = own(m), .group = m.group, .async_op = true});
       }},
      {"scatter",
       [=](auto& m, auto& x) {
         return dist(m).scatter(x, {x}, {.src = own(m), .group = m.group, .async_op = true});
       }},
      {"barrier",
       [=](auto& m, auto&) { return dist(m).barrier({.group = m.group, .async_op = true}); }},
  };
}

std::size_t kernels_run(const Member& m) {
  return m.torch.engine().results().size();
}

// A group of one of two SIPs, and a world of one SIP.
struct Case {
  int sips;
  std::vector<int> ranks;
};
const std::vector<Case> kLone = {{2, {1}}, {1, {0}}};

std::string check_all(const Case& c,
                      const std::function<std::string(const Member&, const InPlace&)>& check) {
  const auto wrong_ones = run_group(round_topology(SipTopology::ring_1d, c.sips, 1, 2, 1), c.ranks,
                                    [&](const Member& m) {
                                      for (const InPlace& collective : in_place()) {
                                        const std::string wrong = check(m, collective);
                                        if (!wrong.empty())
                                          return fmt::format("{}: {}", collective.name, wrong);
                                      }
                                      return std::string();
                                    });
  return fmt::format("{}", fmt::join(wrong_ones, "\n"));
}

TEST_CASE("a collective in place of a group of one runs no kernel, takes no time and is done",
          "[ccl][groups][lone]") {
  for (const Case& c : kLone) {
    for (const DPPolicy& dp : placements()) {
      if (is_partial(dp)) continue;
      CAPTURE(c.sips, to_string(dp));
      CHECK(check_all(c, [&](const Member& m, const InPlace& collective) -> std::string {
              const Tensor x = make(m.torch, {5, 6}, {.dp = dp}, elements_of(0, 30));
              const std::size_t kernels = kernels_run(m);
              const std::uint64_t events = m.torch.engine().event_count();
              const Time begin = m.torch.engine().now();
              const Work work = collective.call(m, x);
              if (!work.is_success()) return "is not done at once";
              if (!work.wait()) return "has failed";
              if (m.torch.engine().now() != begin) return "took time";
              if (kernels_run(m) != kernels) return "ran a kernel";
              if (m.torch.engine().event_count() != events) return "had events";
              return wrong(x, elements_of(0, 30));
            }) == "");
    }
  }
}

TEST_CASE("of a group of one a partial tensor is reduced inside its device",
          "[ccl][groups][lone]") {
  for (const Case& c : kLone) {
    for (const DPPolicy& dp : placements()) {
      if (!is_partial(dp)) continue;
      CAPTURE(c.sips, to_string(dp));
      CHECK(check_all(c, [&](const Member& m, const InPlace& collective) -> std::string {
              if (std::string_view(collective.name) == "barrier") return {};
              const Tensor x = make(m.torch, {5, 6}, {.dp = dp}, elements_of(0, 30));
              const std::size_t kernels = kernels_run(m);
              collective.call(m, x).wait();
              if (kernels_run(m) == kernels) return "ran no kernel";
              return wrong(x, elements_of(0, 30));
            }) == "");
    }
  }
}

TEST_CASE("a group of one copies what it takes elsewhere, in the time of its memory",
          "[ccl][groups][lone]") {
  const auto wrong_ones =
      run_group(round_topology(SipTopology::ring_1d, 2, 1, 2, 1), {1}, [&](const Member& m) {
        const Tensor x = make(m.torch, {8}, {.dp = DPPolicy::on_one_pe()}, elements_of(0, 8));
        const Tensor y = m.torch.zeros({8});
        const Time begin = m.torch.engine().now();
        m.torch.distributed.all_gather_into_tensor(y, x, {.group = m.group});
        m.torch.ahbm.synchronize();
        if (m.torch.engine().now() == begin) return std::string("took no time");
        return wrong(y, elements_of(0, 8));
      });
  CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
}

TEST_CASE("what a group of one does at once does not overtake what it does on the device",
          "[ccl][groups][lone]") {
  const auto wrong_ones =
      run_group(round_topology(SipTopology::ring_1d, 2, 1, 2, 1), {0}, [&](const Member& m) {
        const Tensor x = make(m.torch, {8}, {.dp = {.cube = Shard::partial}}, elements_of(0, 8));
        const distributed::CollectiveOptions options{.group = m.group, .async_op = true};
        const Work first = m.torch.distributed.all_reduce(x, ReduceOp::sum, options);
        const Work second = m.torch.distributed.all_reduce(x, ReduceOp::sum, options);
        if (second.is_success()) return std::string("has overtaken");
        second.wait();
        if (!first.is_success()) return std::string("the first is not done");
        return wrong(x, elements_of(0, 8));
      });
  CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
}

}  // namespace
}  // namespace kernbench::test::group_of_one_test
