// An event that many fibers wait for.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::event_test {
namespace {

TEST_CASE("an event wakes those that wait, in the order in which they came", "[event]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 4, 1));
  runtime::Event happened;
  runtime::Event again;
  std::vector<std::string> log;
  const auto wait_for = [&](runtime::Event& event) {
    event.wait(simulation_of(torch), [] { return std::string("the event"); });
  };
  run_ranks(torch, 4, [&](int rank) {
    if (rank == 3) {  // the last to run, so all others wait by now
      happened.notify_all();
      wait_for(again);
      log.push_back("once more");
      happened.notify_all();
      return;
    }
    wait_for(happened);
    log.push_back(std::to_string(rank));
    if (rank == 2) again.notify_all();
    wait_for(happened);
    log.push_back(std::to_string(rank));
  });
  CHECK(log == std::vector<std::string>{"0", "1", "2", "once more", "0", "1", "2"});
}

TEST_CASE("an event that nobody waits for is not remembered", "[event]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 2, 1));
  runtime::Event happened;
  happened.notify_all();
  const std::string text = error_of<DeadlockError>([&] {
    run_ranks(torch, 2, [&](int rank) {
      if (rank != 0) return;
      happened.wait(simulation_of(torch), [] { return std::string("the event"); });
    });
  });
  CHECK(text.find("rank 0 waits for the event since t=0") != std::string::npos);
}

}  // namespace
}  // namespace kernbench::test::event_test
