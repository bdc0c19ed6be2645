// Streams without number: those that nobody holds are forgotten, and races are found all the same
// (ADR-0190).

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runtime/stream/rank_streams.h"
#include "runtime/torch/internals.h"
#include "test/runtime/stream/queued_topology.h"
#include "test/support/error_text.h"

namespace kernbench::test::many_streams_test {
namespace {

// The host issues more slowly than the device runs, so that few streams run at a time.
Topology topology_of_slow_host() {
  return topology_with_issue(Time{1'000'000});
}

Tensor zeros_on_one_pe(RuntimeContext& torch, const std::string& name) {
  return torch.zeros({4}, {.dp = DPPolicy::on_one_pe(), .name = name});
}

// Launches the kernel on a new stream, which nobody but the caller holds.
ahbm::Stream add_one_on_new_stream(RuntimeContext& torch, const Tensor& x,
                                   const ahbm::Stream& after) {
  const ahbm::Stream s = torch.ahbm.Stream();
  s.wait_stream(after);
  const auto guard = torch.ahbm.stream(s);
  torch.launch("add_one", add_one, x);
  return s;
}

const runtime::StreamSlots& slots_of(RuntimeContext& torch) {
  return runtime::stream_slots(simulation_of(torch));
}

TEST_CASE("a stream for each step takes the place of one that is forgotten", "[stream]") {
  const bool synchronizes = GENERATE(true, false);
  RuntimeContext torch(topology_of_slow_host(), kQueued);
  const Tensor x = zeros_on_one_pe(torch, "x");
  const ahbm::Stream main = torch.ahbm.current_stream();
  for (int step = 0; step < 2000; ++step) {
    main.wait_stream(add_one_on_new_stream(torch, x, main));
    if (synchronizes && step % 50 == 49) torch.ahbm.synchronize();
  }
  CHECK(slots_of(torch).count() < 64);
  CHECK(x.to_vector() == std::vector<float>(4, 2000));
}

TEST_CASE("a chain of streams that are forgotten takes no more places than run", "[stream]") {
  RuntimeContext torch(topology_of_slow_host(), kQueued);
  const Tensor x = zeros_on_one_pe(torch, "x");
  ahbm::Stream last = torch.ahbm.current_stream();
  for (int step = 0; step < 2000; ++step) last = add_one_on_new_stream(torch, x, last);
  CHECK(slots_of(torch).count() < 64);
  torch.ahbm.synchronize();
  CHECK(slots_of(torch).in_use() == 2);  // the default stream, and the last one
  CHECK(x.to_vector() == std::vector<float>(4, 2000));
}

TEST_CASE("streams that are made and not used take a place while they are held", "[stream]") {
  RuntimeContext torch(small_topology(), kQueued);
  for (int i = 0; i < 100; ++i) torch.ahbm.Stream();
  CHECK(slots_of(torch).count() == 2);  // of the default stream, and of one of these at a time
  std::vector<ahbm::Stream> held;
  for (int i = 0; i < 10; ++i) held.push_back(torch.ahbm.Stream());
  CHECK(slots_of(torch).in_use() == 11);
}

// Lets a stream that is then forgotten add 1 to x, does `between`, and lets another one do it too.
template <class Between>
std::string race_with_forgotten(Between between) {
  RuntimeContext torch(topology_of_slow_host(), kQueued);
  const Tensor x = zeros_on_one_pe(torch, "x");
  const Tensor y = zeros_on_one_pe(torch, "y");
  const ahbm::Stream first = torch.ahbm.current_stream();
  add_one_on_new_stream(torch, x, first);
  between(torch, y);
  return error_of<DeviceError>([&] {
    add_one_on_new_stream(torch, x, first);
    torch.ahbm.synchronize();
  });
}

TEST_CASE("a kernel of a forgotten stream races with what nothing orders", "[stream]") {
  // It may still run, or have ended long ago while others took places.
  CHECK_THAT(race_with_forgotten([](RuntimeContext&, const Tensor&) {}),
             Says("KB-M031", "elements 0..3 of tensor 'x'", "streams 2 and 1"));
  CHECK_THAT(race_with_forgotten([](RuntimeContext& torch, const Tensor& y) {
               const ahbm::Stream main = torch.ahbm.Stream();
               for (int i = 0; i < 100; ++i) {
                 main.wait_stream(add_one_on_new_stream(torch, y, main));
               }
             }),
             Says("KB-M031", "elements 0..3 of tensor 'x'", "streams 103 and 1"));
  CHECK(race_with_forgotten(
            [](RuntimeContext& torch, const Tensor&) { torch.ahbm.synchronize(); }) == "no error");
}

TEST_CASE("a stream in the place of a forgotten one is not taken for it", "[stream]") {
  RuntimeContext torch(small_topology(), kQueued);
  const Tensor x = zeros_on_one_pe(torch, "x");
  const Tensor y = zeros_on_one_pe(torch, "y");
  const ahbm::Stream other = torch.ahbm.Stream();
  other.wait_stream(add_one_on_new_stream(torch, y, other));  // what it follows is forgotten
  torch.ahbm.synchronize();
  torch.launch("add_one", add_one, y);  // what it wrote is overwritten, so nobody asks for it
  torch.ahbm.synchronize();
  const std::size_t places = slots_of(torch).count();
  const ahbm::Stream second = torch.ahbm.Stream();
  REQUIRE(slots_of(torch).count() == places);
  CHECK_THAT(error_of<DeviceError>([&] {
               for (const ahbm::Stream& stream : {second, other}) {
                 const auto guard = torch.ahbm.stream(stream);
                 torch.launch("add_one", add_one, x);
               }
               torch.ahbm.synchronize();
             }),
             Says("KB-M031", "of tensor 'x'"));
}

TEST_CASE("an error of a forgotten stream is thrown once, where the host waits", "[stream]") {
  RuntimeContext torch(small_topology(), kQueued);
  const Tensor x = torch.zeros({4});
  {
    const auto guard = torch.ahbm.stream(torch.ahbm.Stream());
    torch.launch(
        "fails", [](tl::Context& tl, tl::Pointer p) { tl.load(p, {5}, p.dtype()); }, x);
  }
  CHECK_THAT(error_of<DeviceError>([&] { torch.ahbm.synchronize(); }), Says("KB-M020", "'fails'"));
  CHECK(error_of<DeviceError>([&] { torch.ahbm.synchronize(); }) == "no error");
}

TEST_CASE("clocks share what they have in common", "[stream]") {
  constexpr int kStreams = 1000;  // several levels of a clock
  const auto slots = std::make_shared<runtime::StreamSlots>();
  std::vector<std::unique_ptr<runtime::StreamSlot>> held;
  runtime::StreamClock clock;
  for (int i = 0; i < kStreams; ++i) {
    held.push_back(std::make_unique<runtime::StreamSlot>(slots, i));
    if (i % 2 == 0) clock.add(*held.back(), 10U + static_cast<unsigned>(i));
  }
  CHECK(slots->count() == kStreams);
  int wrong = 0;
  for (int i = 0; i < kStreams; ++i) {
    const runtime::StreamSlot& slot = *held[static_cast<std::size_t>(i)];
    const auto number = 10U + static_cast<unsigned>(i);
    wrong += clock.has(slot, number) != (i % 2 == 0) || clock.has(slot, number + 1);
  }
  CHECK(wrong == 0);

  runtime::StreamClock later = clock;
  later.add(*held[700], 5000);
  CHECK(later.has(*held[700], 5000));
  CHECK_FALSE(clock.has(*held[700], 5000));
  runtime::StreamClock joined = clock;
  joined.add(later);  // which has all that is in it
  CHECK(joined.shares_all_with(later));
  joined.add(clock);
  CHECK(joined.has(*held[700], 5000));
  runtime::StreamClock other;
  other.add(*held[3], 9000);
  joined.add(other);
  CHECK(joined.has(*held[3], 9000));
  CHECK(joined.has(*held[998], 1008));
}

TEST_CASE("the next stream in a place counts on", "[stream]") {
  const auto slots = std::make_shared<runtime::StreamSlots>();
  runtime::StreamClock knows_first;
  {
    runtime::StreamSlot first(slots, 0);
    first.add_operation();
    knows_first.add(first, first.last());
    CHECK(knows_first.has(first, first.last()));
  }
  const runtime::StreamSlot second(slots, 1);
  CHECK(slots->count() == 1);
  CHECK_FALSE(knows_first.has(second, second.last()));
}

// Not to be done in the square of the number: the longest chain would take hours.
TEST_CASE("chains of a hundred thousand streams end, also if all are held",
          "[stream][exhaustive]") {
  const bool is_held = GENERATE(false, true);
  const int count = GENERATE(1'000, 10'000, 100'000);
  RuntimeContext torch(topology_of_slow_host(), kQueued);
  const Tensor x = zeros_on_one_pe(torch, "x");
  std::vector<ahbm::Stream> held;
  ahbm::Stream last = torch.ahbm.current_stream();
  for (int step = 0; step < count; ++step) {
    last = add_one_on_new_stream(torch, x, last);
    if (is_held) held.push_back(last);
  }
  const std::size_t most = is_held ? static_cast<std::size_t>(count) + 2 : 64;
  CHECK(slots_of(torch).count() <= most);
  CHECK(x.to_vector() == std::vector<float>(4, static_cast<float>(count)));
}

}  // namespace
}  // namespace kernbench::test::many_streams_test
