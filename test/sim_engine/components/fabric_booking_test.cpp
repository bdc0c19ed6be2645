// Messages that book their way ahead take the times of messages that enter each link in an event.

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "sim_engine/components/fabric.h"
#include "test/support/small_topology.h"

namespace kernbench::sim::fabric_booking_test {

namespace {

// Sends random messages; some are sent when another has been delivered, as a kernel would.
class Traffic {
  const Topology topology_;
  const unsigned seed_;
  const std::int64_t pace_;  // ps: messages are sent within 400 of it

 public:
  Traffic(const Topology& topology, unsigned seed, std::int64_t pace, bool steps)
      : topology_(topology), seed_(seed), pace_(pace) {
    if (steps) fabric.step_through_links();
  }

  void run(int message_count) {
    std::mt19937_64 draw(seed_);
    delivered.resize(static_cast<std::size_t>(3 * message_count), Time{-1});
    for (int i = 0; i < message_count; ++i) {
      const Time at = random_time(draw, 400);
      engine.schedule<&Traffic::send>(at, this, static_cast<std::uint64_t>(i));
    }
    engine.run();
  }

  Engine engine;
  Fabric fabric{engine, topology_, nullptr};
  std::vector<Time> delivered;
  std::vector<std::pair<LinkId, Bytes>> carried_meanwhile;

 private:
  // A message's ends and size depend on its number alone.
  void send(std::uint64_t id) {
    std::mt19937_64 draw(seed_ * 1'000'003 + id);
    const auto below = [&](std::uint64_t limit) { return static_cast<int>(draw() % limit); };
    const auto endpoint = [&] {
      constexpr std::array kKinds = {Endpoint::Kind::tcm, Endpoint::Kind::tcm, Endpoint::Kind::hbm,
                                     Endpoint::Kind::sram, Endpoint::Kind::pe_cpu};
      return Endpoint{kKinds.at(static_cast<std::size_t>(below(kKinds.size()))),
                      {below(static_cast<std::uint64_t>(topology_.system.sip_count)),
                       below(static_cast<std::uint64_t>(topology_.cube_count())),
                       below(static_cast<std::uint64_t>(topology_.pe_count()))}};
    };
    const Endpoint from = endpoint();
    const Endpoint to = endpoint();
    constexpr std::array<Bytes, 6> kBytes = {0, 16, 64, 100, 4096, 20'000};
    const Bytes bytes = kBytes.at(static_cast<std::size_t>(below(kBytes.size())));
    const Time delay = below(3) == 0 ? Time{0} : random_time(draw, 20);
    const LinkId link = static_cast<LinkId>(draw() % fabric.routing().link_count());
    if (below(4) == 0) carried_meanwhile.emplace_back(link, fabric.carried(link));
    const auto priority = below(2) == 0 ? Priority::communication : Priority::bulk;
    fabric.send(fabric.path(from, to), bytes, Engine::call<&Traffic::note>(this, id), delay,
                priority);
  }
  void note(std::uint64_t id) {
    delivered.at(id) = engine.now();
    const std::uint64_t follower = id + delivered.size() / 3;
    if (follower >= delivered.size()) return;
    const Time thought{1 + static_cast<std::int64_t>(follower * 7919 % 100'003)};
    engine.schedule<&Traffic::send>(thought, this, follower);
  }
  Time random_time(std::mt19937_64& draw, std::uint64_t limit) const {
    return Time{static_cast<std::int64_t>(draw() % (limit * static_cast<std::uint64_t>(pace_)))};
  }
};

}  // namespace

TEST_CASE("random traffic takes the same times with bookings and with events",
          "[fabric][timing][random]") {
  const auto kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  const std::int64_t pace = GENERATE(1, 997, 50'000, 1'000'000);  // from all at once to seldom
  enum class Latencies { round, none_inside, none };
  const auto latencies = GENERATE(Latencies::round, Latencies::none_inside, Latencies::none);
  Topology topology =
      latencies == Latencies::none
          ? test::free_topology()
          : test::round_topology(kind, 2, kind == SipTopology::ring_1d ? 1 : 2, 2, 1);
  if (latencies == Latencies::none_inside) {
    topology.cube.noc.latency = topology.sip.ucie.latency = Time{0};
  }
  topology.communication.packet = GENERATE(0, 64, 1000);
  for (const unsigned seed : {1U, 2U, 3U}) {
    Traffic booked(topology, seed, pace, false);
    Traffic stepped(topology, seed, pace, true);
    booked.run(400);
    stepped.run(400);
    CAPTURE(seed, pace, topology.communication.packet);
    CHECK(std::ranges::mismatch(booked.delivered, stepped.delivered).in1 == booked.delivered.end());
    // With many messages at once, some reach a link just when it is asked.
    CHECK((pace == 1 || booked.carried_meanwhile == stepped.carried_meanwhile));
    CHECK(booked.engine.now() == stepped.engine.now());
    CHECK(booked.engine.event_count() <= stepped.engine.event_count());
    for (LinkId link = 0; link < booked.fabric.routing().link_count(); ++link) {
      CHECK(booked.fabric.carried(link) == stepped.fabric.carried(link));
      CHECK(booked.fabric.busy(link) == stepped.fabric.busy(link));
    }
  }
}

}  // namespace kernbench::sim::fabric_booking_test
