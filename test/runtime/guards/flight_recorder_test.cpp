// The ring of each rank's last collectives and messages, and what is recorded in it.

#include "runtime/guards/flight_recorder.h"

#include <catch2/catch.hpp>

#include "runtime/guards/log.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "test/runtime/distributed/local_world.h"
#include "test/support/error_text.h"

namespace kernbench::test::flight_recorder_test {
namespace {

using runtime::FlightEvent;
using runtime::FlightRecorder;
using State = FlightEvent::State;

TEST_CASE("an event is issued, started and completed, at its times", "[flight_recorder]") {
  FlightRecorder recorder(nullptr);
  const auto id = recorder.issue(1, {.function = "all_reduce", .sequence = 7, .issued = Time{10}});
  const auto event = [&] { return recorder.events(1).front(); };
  CHECK(event().state == State::issued);
  recorder.start(1, id, Time{20});
  CHECK(event().state == State::started);
  recorder.complete(1, id, Time{30});
  CHECK(event().state == State::completed);
  CHECK(event().function == "all_reduce");
  CHECK(event().sequence == 7);
  CHECK(event().issued == Time{10});
  CHECK(event().started == Time{20});
  CHECK(event().completed == Time{30});
  CHECK(recorder.events(0).empty());
  CHECK(recorder.events(2).empty());
}

TEST_CASE("the last 2,000 events of a rank are kept, oldest first", "[flight_recorder]") {
  FlightRecorder recorder(nullptr);
  for (int i = 0; i < 4'321; ++i) recorder.issue(0, {.function = "barrier", .sequence = i});
  const std::vector<FlightEvent> events = recorder.events(0);
  REQUIRE(events.size() == 2'000);
  for (int i = 0; i < 2'000; ++i) {
    CHECK(events[static_cast<std::size_t>(i)].sequence == 2'321 + i);
  }
}

TEST_CASE("an event whose place is taken is not touched any more", "[flight_recorder]") {
  FlightRecorder recorder(nullptr);
  const auto first = recorder.issue(0, {.function = "barrier"});
  for (int i = 0; i < 2'000; ++i) recorder.issue(0, {.function = "barrier"});
  recorder.complete(0, first, Time{1});
  recorder.complete(5, first, Time{1});  // a rank that has none
  for (const FlightEvent& event : recorder.events(0)) CHECK(event.state == State::issued);
  recorder.clear();
  CHECK(recorder.events(0).empty());
}

TEST_CASE("collectives and messages of all ranks are recorded", "[flight_recorder]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.zeros({3}, DType::f16);
    world.dist.all_reduce(x, ReduceOp::max);
    world.dist.broadcast(x, 1, {.async_op = true}).wait();
    rank == 0 ? world.dist.send(x, 1, {.tag = 5}) : void(world.dist.recv(x, 0, {.tag = 5}));
  });
  for (int rank = 0; rank < 2; ++rank) {
    const auto events = simulation_of(world.torch).flight_recorder().events(rank);
    REQUIRE(events.size() == 3);
    for (const FlightEvent& event : events) {
      CHECK(event.state == State::completed);
      CHECK(event.shape == Shape{3});
      CHECK(event.dtype == DType::f16);
    }
    CHECK(events[0].function == "all_reduce");
    CHECK(events[0].reduce_op == "MAX");
    CHECK(events[1].root == 1);
    CHECK(events[1].is_async);
    CHECK(events[1].sequence == 1);
    CHECK(events[2].function == (rank == 0 ? "send" : "recv"));
    CHECK(events[2].peer == 1 - rank);
    CHECK(events[2].tag == 5);
  }
}

TEST_CASE("the call that differs is recorded too, and nobody's call is completed",
          "[flight_recorder]") {
  LocalWorld world(2);
  CHECK_THROWS_AS(world.spawn([&](int rank) { world.dist.all_reduce(world.zeros({rank + 1})); }),
                  CollectiveMismatchError);
  const auto& recorder = simulation_of(world.torch).flight_recorder();
  CHECK(recorder.events(0).front().state == State::started);
  CHECK(recorder.events(1).front().state == State::issued);
  CHECK(recorder.has_failed_with("KB-C001"));
}

TEST_CASE("the names of log topics are known", "[log]") {
  using runtime::Log;
  using runtime::LogTopic;
  CHECK_FALSE(Log(nullptr).is_on(LogTopic::distributed));
  CHECK_FALSE(Log("").is_on(LogTopic::launch));
  const Log two("ccl,launch");
  CHECK(two.is_on(LogTopic::ccl));
  CHECK(two.is_on(LogTopic::launch));
  CHECK_FALSE(two.is_on(LogTopic::fiber));
  CHECK(Log("all").is_on(LogTopic::fiber));
  CHECK_THAT(error_of<UsageError>([] { Log("ccl,,fiber"); }),
             test::Says("KB-U013", "KERNBENCH_LOG", "distributed", "fiber", "launch"));
  CHECK_THAT(error_of<UsageError>([] { Log(std::string(100'000, 'x').c_str()); }),
             Catch::Contains("xxx...'; there are: distributed, "));
}

}  // namespace
}  // namespace kernbench::test::flight_recorder_test
