// Faults as users write them.

#include "sim_engine/faults/fault.h"

#include <catch2/catch.hpp>

#include "test/support/error_text.h"

namespace kernbench::test::fault_test {
namespace {

Fault fault_of(std::string_view text) {
  const ParsedFault parsed = parse_fault(text);
  CHECK(parsed.wrong == "");
  return parsed.fault;
}

TEST_CASE("a fault is KEY=VALUE words in any order", "[faults]") {
  const Fault link = fault_of("from=10us  link=sip0.link.east to=1ms bandwidth=x0.25");
  CHECK(link.kind == Fault::Kind::bandwidth);
  CHECK(link.text == "from=10us link=sip0.link.east to=1ms bandwidth=x0.25");
  CHECK(link.link == "sip0.link.east");
  CHECK(link.share == Share{250'000});
  CHECK(link.from == Time{10'000'000});
  CHECK(link.to == Time{1'000'000'000});
  const Fault dead = fault_of("link=sip0.east dead=2us");
  CHECK((dead.kind == Fault::Kind::dead && dead.from == Time{2'000'000}));
  CHECK(dead.to == Time::max());
  CHECK(fault_of("rank=3 start=+50us") == [] {
    Fault late{.kind = Fault::Kind::start, .text = "rank=3 start=+50us", .rank = 3};
    late.from = Time{50'000'000};
    return late;
  }());
  CHECK(fault_of("pe=sip0.cube1 clock=x0.8").share == Share{800'000});
  CHECK(fault_of("rank=3 clock=x0.8").rank == 3);
  CHECK(fault_of("compute=lognormal sigma=0.1 seed=7").sigma == Share{100'000});
  CHECK(fault_of("compute=normal sigma=0.1").rank == Fault::kAllRanks);
  CHECK(fault_of("rank=2 dies=20us").from == Time{20'000'000});
  CHECK(fault_of("rank=2 dies=20us").detected == Time::max());
  CHECK(fault_of("rank=2 dies=20us detected=+1us").detected == Time{1'000'000});
  CHECK(fault_of("rank=2 drop=3 collective=5").message == 3);
  CHECK(fault_of("rank=2 drop=1 collective=1").collective == 1);
  const Fault flip = fault_of("rank=2 flip=14 element=17 message=3 collective=5");
  CHECK((flip.bit == 14 && flip.element == 17 && flip.message == 3 && flip.collective == 5));
  CHECK(fault_of("rank=2 flip=14 element=17 result=3").result == 3);
}

TEST_CASE("a wrong fault says what would be right", "[faults]") {
  struct Wrong {
    std::string_view text;
    std::string_view says;
  };
  const auto [text, says] = GENERATE(
      Wrong{"", "it does not say what happens: give one of bandwidth, dead, clock"},
      Wrong{"rank=3", "it does not say what happens"},
      Wrong{"rank=3 start", "'start' is no KEY=VALUE"},
      Wrong{"rank=3 start=", "'start=' is no KEY=VALUE"},
      Wrong{"rank=3 rank=4 start=1us", "rank= is given twice"},
      Wrong{"rank=3 strat=1us", "'strat' is no key; did you mean 'start'?"},
      Wrong{"rank=3 slowness=2", "'slowness' is no key; there are: link, pe, rank"},
      Wrong{"rank=3 start=50", "start=50: '50' needs a unit; there are: ps, ns, us, ms, s"},
      Wrong{"rank=3 start=-5us", "start=-5us: -5 us not in [0 ps"},
      Wrong{"rank=-1 start=1us", "rank=-1: "}, Wrong{"bandwidth=x0.5", "bandwidth= needs link="},
      Wrong{"clock=x0.5", "clock= needs pe= or rank="},
      Wrong{"rank=1 flip=3 element=0", "flip= needs message= or result="},
      Wrong{"rank=1 flip=64 element=0 result=1", "flip=64: "},
      Wrong{"rank=1 flip=3 element=0 result=1 collective=2",
            "collective= has no meaning beside flip="},
      Wrong{"rank=1 start=1us detected=2us", "detected= has no meaning beside start="},
      Wrong{"rank=1 start=1us dies=2us", "dies= has no meaning beside start="},
      Wrong{"link=a bandwidth=x2", "bandwidth=x2: expected a factor from x0.000001 to x1"},
      Wrong{"link=a bandwidth=x0", "bandwidth=x0: expected a factor"},
      Wrong{"link=a bandwidth=0.5", "bandwidth=0.5: expected a factor"},
      Wrong{"compute=uniform sigma=1", "compute=uniform: expected normal or lognormal"},
      Wrong{"compute=normal sigma=3", "sigma=3: expected a number from 0.000001 to 2"},
      Wrong{"link=a bandwidth=x0.5 from=2us to=1us", "it ends at 1000 ns, and begins at 2000 ns"});
  CAPTURE(text);
  CHECK_THAT(parse_fault(text).wrong, Catch::Contains(std::string(says)));
}

TEST_CASE("effects of several runs add up by fault", "[faults]") {
  std::vector<FaultEffect> sum;
  const FaultEffect none{.fault = "rank=3 start=1us"};
  const FaultEffect once{.fault = none.fault,
                         .count = 1,
                         .added = Time{1'000'000},
                         .first = Time{5},
                         .detail = "at first"};
  add_effects(sum, {none});
  add_effects(sum, {once});
  add_effects(sum, {once, {.fault = "rank=4 dies=1us"}});
  REQUIRE(sum.size() == 2);
  CHECK(describe(sum[0]) ==
        "rank=3 start=1us: 2 times, first at 0.005 ns, 2000 ns in sum: at first");
  CHECK(describe(sum[1]) == "rank=4 dies=1us: did nothing");
}

}  // namespace
}  // namespace kernbench::test::fault_test
