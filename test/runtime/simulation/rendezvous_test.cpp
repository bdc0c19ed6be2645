// The members of a group meet, and each of them finds what the others brought.

#include "runtime/simulation/rendezvous.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::rendezvous_test {
namespace {

struct Place {
  RuntimeContext torch{round_topology(SipTopology::ring_1d, 3, 1)};
  runtime::Meetings<int> meetings;

  // The ranks meet once for each operation, and bring 10 * operation + rank.
  void meet(int rank, int members, std::uint64_t operation, std::vector<int>& found) {
    const int brought = 10 * static_cast<int>(operation) + rank;
    const auto meeting = meetings.arrive(operation, members, rank, brought);
    meeting->wait(simulation_of(torch), [] { return std::string("the others"); });
    CHECK(meeting->is_complete());
    found = meeting->all();
  }
};

TEST_CASE("each member goes on when the last has come, and finds what all have brought",
          "[rendezvous]") {
  Place place;
  std::vector<int> arrived;
  run_ranks(place.torch, 3, [&](int rank) {
    arrived.push_back(rank);
    std::vector<int> found;
    place.meet(rank, 3, 1, found);
    CHECK(arrived.size() == 3);
    CHECK(found == std::vector{10, 11, 12});
    place.meet(rank, 3, 2, found);
    CHECK(found == std::vector{20, 21, 22});
  });
}

TEST_CASE("a meeting is forgotten when it is complete", "[rendezvous]") {
  Place place;
  for (const int brought : {7, 8}) {  // one operation, twice
    const auto meeting = place.meetings.arrive(5, 1, 0, brought);
    CHECK(meeting->all() == std::vector{brought});
  }
  const auto half = place.meetings.arrive(6, 2, 0, 1);
  place.meetings.clear();
  CHECK_FALSE(place.meetings.arrive(6, 2, 1, 2)->is_complete());
  CHECK_FALSE(half->is_complete());
}

TEST_CASE("a member that does not come is a deadlock", "[rendezvous]") {
  Place place;
  const std::string text = error_of<DeadlockError>([&] {
    run_ranks(place.torch, 3, [&](int rank) {
      std::vector<int> found;
      if (rank != 1) place.meet(rank, 3, 1, found);
    });
  });
  CHECK(text.find("KB-D001") != std::string::npos);
  CHECK(text.find("rank 2 waits for the others since t=0") != std::string::npos);
}

}  // namespace
}  // namespace kernbench::test::rendezvous_test
