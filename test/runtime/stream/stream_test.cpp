// torch.ahbm's streams and events: order, times, and what races (ADR-0190).

#include <catch2/catch.hpp>

#include "runtime/functional/operators.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/runtime/stream/queued_topology.h"
#include "test/support/error_text.h"

namespace kernbench::test::stream_test {
namespace {

using Floats = std::vector<float>;

void reads(tl::Context& tl, tl::Pointer x) {
  tl.load(x, {4}, x.dtype());
}

TEST_CASE("streams are the caller's, one is current for each device", "[stream]") {
  RuntimeContext torch(small_topology(), kQueued);
  CHECK(torch.ahbm.current_stream() == torch.ahbm.default_stream());
  const ahbm::Stream s = torch.ahbm.Stream(1);
  CHECK(s.device_index() == 1);
  {
    const auto guard = torch.ahbm.stream(s);
    CHECK(torch.ahbm.current_device() == 1);
    CHECK(torch.ahbm.current_stream() == s);
    CHECK(torch.ahbm.current_stream(0) == torch.ahbm.default_stream(0));
  }
  CHECK(torch.ahbm.current_device() == 0);
  CHECK(torch.ahbm.current_stream(1) == torch.ahbm.default_stream(1));
  torch.ahbm.set_stream(s);
  CHECK(torch.accelerator.current_stream(1) == s);
  CHECK_THROWS_MATCHES(torch.ahbm.Stream(2), CollectiveError, Says("KB-R003", "2"));
}

TEST_CASE("events measure simulated time on the device", "[stream][timing]") {
  RuntimeContext torch(small_topology(), kQueued);
  const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  const ahbm::Event begin = torch.ahbm.Event({.enable_timing = true});
  const ahbm::Event end = torch.ahbm.Event({.enable_timing = true});
  begin.record();
  torch.launch("k", nothing, x);
  torch.launch("k", nothing, x);
  end.record();
  CHECK(torch.engine().now() == Time{0});
  CHECK_FALSE(end.query());
  end.synchronize();
  CHECK(end.query());
  CHECK(torch.engine().now() == kHostLeg + 4 * kDeviceLeg + kHostLeg);
  CHECK(begin.elapsed_time(end) == to_ns(4 * kDeviceLeg) / 1e6);
}

TEST_CASE("elapsed_time says what is missing, in PyTorch's words", "[stream]") {
  RuntimeContext torch(small_topology(), kQueued);
  const ahbm::Event plain = torch.ahbm.Event();
  const ahbm::Event timed = torch.ahbm.Event({.enable_timing = true});
  const auto refused = [&](const ahbm::Event& a, const ahbm::Event& b) {
    return error_of<CollectiveError>([&] { a.elapsed_time(b); });
  };
  CHECK_THAT(refused(plain, timed), Says("KB-R019", "enable_timing"));
  CHECK_THAT(refused(timed, timed), Says("KB-R019", "recorded"));
  timed.record();
  CHECK_THAT(refused(timed, timed), Says("KB-R019", "completed"));
  timed.synchronize();
  CHECK(timed.elapsed_time(timed) == 0);
}

TEST_CASE("a loop that asks for an event ends", "[stream]") {
  RuntimeContext torch(small_topology(), kQueued);
  const Tensor x = torch.zeros({4});
  CHECK(torch.ahbm.Event().query());  // was not recorded
  run_ranks(torch, 1, [&](int) {
    torch.launch("add_one", add_one, x);
    const ahbm::Event event = torch.ahbm.current_stream().record_event();
    int looks = 0;
    while (!event.query()) ++looks;
    CHECK(looks > 0);
    CHECK(torch.ahbm.current_stream().query());
  });
}

TEST_CASE("kernels of two streams run side by side, where their PEs are free", "[stream][timing]") {
  RuntimeContext torch(small_topology(), kQueued);
  const Tensor x = torch.ones({4}, {.dp = DPPolicy::on_one_pe()});
  const Tensor y = torch.ones({4}, {.dp = {.num_cubes = 2, .num_pes = 1}});
  const auto time_of = [&](const ahbm::Stream& first, const ahbm::Stream& second) {
    torch.ahbm.synchronize();
    const Time begin = torch.engine().now();
    {
      const auto guard = torch.ahbm.stream(first);
      for (int i = 0; i < 3; ++i) torch.launch("add_one", add_one, x);
    }
    {
      const auto guard = torch.ahbm.stream(second);
      for (int i = 0; i < 3; ++i) torch.launch("add_one", add_one, y);
    }
    torch.ahbm.synchronize();
    return torch.engine().now() - begin;
  };
  const ahbm::Stream a = torch.ahbm.Stream();
  const ahbm::Stream b = torch.ahbm.Stream();
  CHECK(time_of(a, b) < time_of(a, a));
  CHECK(x.to_vector() == Floats(4, 7));
  CHECK(y.to_vector() == Floats(4, 7));
}

TEST_CASE("an event orders two streams", "[stream]") {
  for (const bool blocking : {false, true}) {
    RuntimeContext torch(small_topology(), {.launch_blocking = blocking});
    const Tensor x = torch.zeros({4});
    const ahbm::Stream s = torch.ahbm.Stream();
    torch.launch("add_one", add_one, x);
    s.wait_event(torch.ahbm.current_stream().record_event());
    {
      const auto guard = torch.ahbm.stream(s);
      torch.launch("twice", twice, x);
    }
    torch.ahbm.current_stream().wait_stream(s);
    torch.launch("add_one", add_one, x);
    CHECK(x.to_vector() == Floats(4, 3));
  }
}

// Runs `first` on one stream and `second` on another one, with `between` in between.
template <class Between>
std::string race(void (*first)(tl::Context&, tl::Pointer),
                 void (*second)(tl::Context&, tl::Pointer), Between between) {
  RuntimeContext torch(small_topology(), kQueued);
  const Tensor x = torch.zeros({4}, {.name = "x"});
  const ahbm::Stream s = torch.ahbm.Stream();
  torch.launch("first", first, x);
  between(torch, s);
  {
    const auto guard = torch.ahbm.stream(s);
    torch.launch("second", second, x);
  }
  return error_of<DeviceError>([&] { torch.ahbm.synchronize(); });
}

TEST_CASE("streams that nothing orders race, whatever the times are", "[stream]") {
  const auto none = [](RuntimeContext&, const ahbm::Stream&) {};
  CHECK_THAT(race(add_one, add_one, none),
             Says("KB-M031", "tl.load in kernel 'second'", "0..3 of tensor 'x'",
                  "which kernel 'first' at stream_test.cpp:", "writes", "streams 1 and 0"));
  CHECK_THAT(race(add_one, reads, none), Says("KB-M031", "'second'", "reads"));
  CHECK_THAT(race(reads, add_one, none), Says("KB-M031", "'second'", "writes"));
  CHECK(race(reads, reads, none) == "no error");
}

TEST_CASE("events, streams and the host order what they are waited for by", "[stream]") {
  CHECK(race(add_one, add_one, [](RuntimeContext& torch, const ahbm::Stream& s) {
          s.wait_stream(torch.ahbm.default_stream());
        }) == "no error");
  CHECK(race(add_one, add_one, [](RuntimeContext& torch, const ahbm::Stream&) {
          torch.ahbm.default_stream().synchronize();
        }) == "no error");
  CHECK(race(add_one, add_one, [](RuntimeContext& torch, const ahbm::Stream&) {
          torch.ahbm.synchronize();
        }) == "no error");
  CHECK_THAT(race(add_one, add_one,
                  [](RuntimeContext& torch, const ahbm::Stream& s) {
                    torch.ahbm.default_stream().wait_stream(s);  // the wrong way round
                  }),
             Says("KB-M031"));
}

TEST_CASE("an error holds up the streams that wait for it", "[stream]") {
  RuntimeContext torch(small_topology(), kQueued);
  const Tensor x = torch.zeros({4});
  const ahbm::Stream s = torch.ahbm.Stream();
  torch.launch(
      "fails", [](tl::Context& tl, tl::Pointer p) { tl.load(p, {5}, p.dtype()); }, x);
  s.wait_stream(torch.ahbm.current_stream());
  {
    const auto guard = torch.ahbm.stream(s);
    torch.launch("add_one", add_one, x);
  }
  CHECK_THAT(error_of<DeviceError>([&] { s.synchronize(); }), Says("KB-M020", "'fails'"));
  CHECK(x.to_vector() == Floats(4, 0));
}

// Does `write` on two streams.
template <class Write>
std::string race_of(Write write) {
  RuntimeContext torch(small_topology(), kQueued);
  const TensorOptions on_one_pe{.dp = DPPolicy::on_one_pe(), .name = "x"};
  const Tensor x = torch.zeros({4, 4}, on_one_pe);
  const Tensor y = torch.ones({4, 4}, on_one_pe);
  torch.launch("nothing", nothing, y);  // the last line that is known, where an operator has none
  const ahbm::Stream s = torch.ahbm.Stream();
  return error_of<DeviceError>([&] {
    for (const ahbm::Stream& stream : {torch.ahbm.current_stream(), s}) {
      const auto guard = torch.ahbm.stream(stream);
      write(x, y);
    }
    torch.ahbm.synchronize();
  });
}

TEST_CASE("a race names the operator that the user has called", "[stream]") {
  CHECK_THAT(race_of([](const Tensor& x, const Tensor& y) {
               x.narrow(1, 0, 2).add_(y.narrow(1, 0, 2));  // of a strided view: several kernels
             }),
             Says("KB-M031", "tl.store in kernel 'copy_'", " of add_, after stream_test.cpp:",
                  "which kernel 'contiguous' of add_, after stream_test.cpp:"));
  CHECK_THAT(race_of([](const Tensor& x, const Tensor&) { x.mul_(2); }),
             Says("KB-M031", "of mul_, after stream_test.cpp:"));
  CHECK_THAT(race_of([](const Tensor& x, const Tensor& y) { x.sub_(y, 3); }),
             Says("KB-M031", "of sub_, after stream_test.cpp:"));
  CHECK_THAT(race_of([](const Tensor& x, const Tensor& y) { x += y; }),
             Says("KB-M031", "of add_, after stream_test.cpp:"));
  CHECK_THAT(race_of([](const Tensor& x, const Tensor& y) { x.copy_(y); }),
             Says("KB-M031", "of copy_ at stream_test.cpp:"));
  CHECK(race_of([](const Tensor& x, const Tensor& y) { x + y; }) == "no error");
}

}  // namespace
}  // namespace kernbench::test::stream_test
