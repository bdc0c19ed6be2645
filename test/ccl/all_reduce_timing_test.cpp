// Where nothing costs time but links, the simulated time is the closed form, to the picosecond.
//
// Between SIPs alpha is 500 ns and a byte takes 20 ps (50 GB/s); between cubes 20 ns and 1/128 ns.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/closed_form.h"
#include "test/ccl/kernels_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::all_reduce_timing_test {
namespace {

constexpr Time kAlpha{500'000};
constexpr Time kByte{20};  // beta
constexpr Time kCubeAlpha{20'000};

// Queues that never limit what is measured.
ccl::Config deep_queues() {
  return ccl::Config::parse(
      "defaults: {algorithm: intercube_allreduce, depth: 64, slot: 2 MiB, buffer_kind: sram}");
}

Topology sip_links(SipTopology kind, int w, int h = 1) {
  return link_topology(kind, w, h);
}
Topology cube_links(SipTopology kind, int cubes_w, int cubes_h) {
  return link_topology(kind, 1, 1, cubes_w, cubes_h);
}

const DPPolicy kPartial{.cube = Shard::partial, .pe = Shard::replicate};

// An all_reduce of so many bytes per SIP, as a rank sees it.
Time time_of(const Topology& topology, Bytes bytes, const ccl::Config& config = deep_queues()) {
  return run({.topology = topology,
              .shape = {bytes / 4},
              .config = config,
              .summand = nullptr,
              .data = false})
      .took;
}

// The same for several cubes, whose launch would take time too.
Time kernel_time_of(const Topology& topology, Bytes bytes, const DPPolicy& dp = kPartial) {
  return KernelsUnderTest(topology, dp, deep_queues()).run(bytes / 4);
}

TEST_CASE("an odd ring of P SIPs takes (P - 1) (alpha + n/P beta)", "[ccl][timing]") {
  for (int p = 3; p <= 15; p += 2) {
    for (const Bytes chunk : {4, 64, 4096}) {
      const Time expected = (p - 1) * (kAlpha + chunk * kByte);
      CHECK(time_of(sip_links(SipTopology::ring_1d, p), p * chunk) == expected);
      if (chunk > 1024) continue;  // which slots of 16 KiB carry in one part
      CHECK(time_of(sip_links(SipTopology::ring_1d, p), p * chunk, {}) == expected);
    }
  }
}

TEST_CASE("two SIPs take 2 alpha + n beta", "[ccl][timing]") {
  for (const Bytes bytes : {16, 1024, 65536}) {
    CHECK(time_of(sip_links(SipTopology::ring_1d, 2), bytes) == 2 * kAlpha + bytes * kByte);
  }
}

TEST_CASE("a line of P SIPs takes 2 (P - 1) (alpha + n/P beta)", "[ccl][timing]") {
  for (int p = 2; p <= 8; ++p) {
    for (const Bytes chunk : {4, 1000, 4096, 65536}) {
      const Time expected = 2 * (p - 1) * (kAlpha + chunk * kByte);
      CHECK(time_of(sip_links(SipTopology::mesh_2d_no_wrap, p), p * chunk) == expected);
      CHECK(time_of(sip_links(SipTopology::mesh_2d_no_wrap, 1, p), p * chunk) == expected);
    }
  }
}

// One dimension after the other would take that, with halves of 2 h chunks and of 2 chunks.
Time one_after_the_other(int w, int h, Time chunk) {
  return 2 * (w + h - 2) * kAlpha + 2 * (w * h - 1) * chunk;
}

TEST_CASE("a grid takes its diameter there and back, both dimensions at once", "[ccl][timing]") {
  for (const auto& [a, b] : {std::pair{2, 3}, {3, 3}, {3, 5}, {4, 3}, {6, 4}}) {
    const Bytes bytes = a * b * 2000;
    const Time sequential = one_after_the_other(a, b, 2000 * kByte);
    const Time torus = time_of(sip_links(SipTopology::torus_2d, a, b), bytes);
    CAPTURE(a, b);
    CHECK(torus > 2 * (a / 2 + b / 2) * kAlpha);
    CHECK(torus < 2 * (a / 2 + b / 2) * kAlpha + (a * b - 1) * 2000 * kByte);
    const Time mesh = time_of(sip_links(SipTopology::mesh_2d_no_wrap, a, b), bytes);
    CHECK(mesh > 2 * (a + b - 2) * kAlpha);
    CHECK(mesh < sequential);
  }
}

TEST_CASE("reducing to the centre of w x h cubes and back takes floor(w/2) + floor(h/2) steps each",
          "[ccl][timing]") {
  for (int w = 1; w <= 5; ++w) {
    for (int h = 1; h <= 5; ++h) {
      const Bytes bytes = 128 * 1000;  // 1000 ns on a link
      CHECK(kernel_time_of(cube_links(SipTopology::mesh_2d_no_wrap, w, h), bytes) ==
            2 * (w / 2 + h / 2) * (kCubeAlpha + Time{1'000'000}));
    }
  }
}

TEST_CASE("4 x 4 cubes take 8 steps, as the root is in the centre and not in a corner (12)",
          "[ccl][timing]") {
  CHECK(kernel_time_of(cube_links(SipTopology::mesh_2d_no_wrap, 4, 4), 12800) ==
        8 * (kCubeAlpha + Time{100'000}));
}

TEST_CASE("cubes that hold copies only need the way back", "[ccl][timing]") {
  CHECK(kernel_time_of(cube_links(SipTopology::mesh_2d_no_wrap, 4, 4), 12800, {}) ==
        4 * (kCubeAlpha + Time{100'000}));
}

std::optional<Time> form_of(const Topology& topology, Bytes bytes, const DPPolicy& dp = kPartial,
                            const ccl::Config& config = deep_queues()) {
  return closed_form({topology, dp, bytes / 4, DType::f32, config});
}

TEST_CASE("the closed form is the simulated time", "[ccl][timing]") {
  const auto check = [&](const Topology& topology, Bytes bytes, const DPPolicy& dp = kPartial) {
    CAPTURE(topology.system.w, topology.system.h, topology.sip.cubes_w, topology.sip.cubes_h);
    const auto form = form_of(topology, bytes, dp);
    REQUIRE(form.has_value());
    CHECK(*form == kernel_time_of(topology, bytes, dp));
  };
  for (int p = 1; p <= 9; ++p) {
    if (p < 3 || p % 2 == 1) {
      check(sip_links(SipTopology::ring_1d, p), p * 4096);
      check(sip_links(SipTopology::torus_2d, 1, p), p * 4096);
    }
    check(sip_links(SipTopology::mesh_2d_no_wrap, p), p * 4096);
    check(sip_links(SipTopology::mesh_2d_no_wrap, 1, p), p * 4096);
  }
  for (const SipTopology kind : kGridTopologies) {
    const Topology cubes = cube_links(kind, 4, 3);
    for (int count = 1; count <= 12; ++count) {
      for (const Shard cube : {Shard::partial, Shard::replicate}) {
        check(cubes, 12800, {.cube = cube, .pe = Shard::replicate, .num_cubes = count});
      }
    }
  }
}

TEST_CASE("there is a closed form only where queues let every message through", "[ccl][timing]") {
  int known = 0;
  for (const SipTopology kind : kGridTopologies) {
    for (int depth = 1; depth <= 12; ++depth) {
      const auto config = ccl::Config::parse(
          fmt::format("defaults: {{depth: {}, slot: 1 MiB, buffer_kind: sram}}", depth));
      for (const Bytes bytes : {96, 960, 960'000}) {
        for (const Topology& topology :
             {sip_links(kind, 4), sip_links(kind, 2), sip_links(kind, 6), cube_links(kind, 4, 3)}) {
          const auto form = form_of(topology, bytes, kPartial, config);
          if (!form) continue;
          ++known;
          CAPTURE(name_of(kind), depth, bytes, topology.system.w);
          CHECK(*form == KernelsUnderTest(topology, kPartial, config).run(bytes / 4));
        }
      }
    }
  }
  CHECK(known > 100);
}

TEST_CASE("where it is not known there is no closed form", "[ccl][timing]") {
  const Topology ring = sip_links(SipTopology::ring_1d, 5);
  const auto slots = [](int depth, int kib) {
    return ccl::Config::parse(fmt::format("defaults: {{depth: {}, slot: {} KiB}}", depth, kib));
  };
  const Bytes bytes = 5 * 1024;
  CHECK(form_of(ring, bytes, kPartial, slots(4, 1)).has_value());
  CHECK_FALSE(form_of(ring, 0));
  CHECK_FALSE(form_of(ring, bytes + 4));                           // chunks differ in size
  CHECK_FALSE(form_of(ring, 2 * bytes, kPartial, slots(4, 1)));    // several pieces
  CHECK_FALSE(form_of(sip_links(SipTopology::ring_1d, 4), 8192));  // halves meet
  CHECK_FALSE(form_of(sip_links(SipTopology::torus_2d, 3, 3), 9 * 1024));
  const Topology cubes = cube_links(SipTopology::ring_1d, 2, 2);
  CHECK_FALSE(form_of(cubes, 4096, {.cube = Shard::row_wise}));
  Topology pes = ring;
  pes.cube.pe_per_corner = 2;
  CHECK_FALSE(form_of(pes, bytes, {.pe = Shard::column_wise}));
}

TEST_CASE("where PEs look every so often it takes longer, by no known form",
          "[ccl][timing][wait]") {
  const auto polling = [](std::string_view interval) {
    return ccl::Config::parse(
        fmt::format("defaults: {{algorithm: intercube_allreduce, depth: 64, slot: 1 MiB, "
                    "buffer_kind: sram, wait: poll, poll_interval: {}}}",
                    interval));
  };
  const Topology ring = sip_links(SipTopology::ring_1d, 4);
  const Time woken = time_of(ring, 8192);
  CHECK(time_of(ring, 8192, polling("0.001 ns")) == woken);
  CHECK(time_of(ring, 8192, polling("1 us")) > woken);
  CHECK_FALSE(form_of(ring, 8192, kPartial, polling("1 us")));
}

// Through a slot, each of them would wait for the credit of the one before.
TEST_CASE("messages that slots would hold up wait for none", "[ccl][timing]") {
  const auto time_at = [](int depth) {
    const auto config = ccl::Config::parse(
        fmt::format("defaults: {{algorithm: intercube_allreduce, depth: {}, slot: 4 B, eager: 0 B, "
                    "buffer_kind: sram}}",
                    depth));
    return time_of(sip_links(SipTopology::mesh_2d_no_wrap, 2), 16, config);
  };
  // A line of two, 4 elements in 2 segments of 2 chunks, which follow each other there and back.
  // The news of the first receive, 16 B, go ahead of them.
  const Time news = kAlpha + 16 * kByte;
  CHECK(time_at(1) == news + 2 * kAlpha + 3 * 4 * kByte);
  CHECK(time_at(2) == time_at(1));
  CHECK(time_at(4) == time_at(1) - news);
}

// The sizes 4 KiB x 1.25^k on six SIPs of one PE with shipped figures, by one algorithm.
TEST_CASE("two slots are enough, and no size takes much longer than the one before it",
          "[ccl][timing]") {
  const auto kind = GENERATE(SipTopology::ring_1d, SipTopology::torus_2d);
  Topology topology =
      Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml",
                                 kind == SipTopology::ring_1d ? "ring_1d_6" : "torus_2d_2x3"));
  topology.sip.cubes_w = topology.sip.cubes_h = 1;
  topology.cube.corners = {"NW"};
  topology.cube.pe_per_corner = 1;
  const auto config = [](int depth) {
    return ccl::Config::parse(
        fmt::format("defaults: {{algorithm: intercube_allreduce, depth: {}}}", depth));
  };
  Time before = Time::max();
  for (double size = 4096; size <= 4 << 20; size *= 1.25) {
    const Bytes bytes = static_cast<Bytes>(size) / 4 * 4;
    const Time took = time_of(topology, bytes, config(2));
    CAPTURE(bytes, took.count());
    // Without slots the news of the first receive go ahead.
    CHECK(took <= time_of(topology, bytes, config(8)) + topology.system.sip_link.latency);
    CHECK((before == Time::max() || took.count() * 100 <= before.count() * 135));
    before = took;
  }
}

}  // namespace
}  // namespace kernbench::test::all_reduce_timing_test
