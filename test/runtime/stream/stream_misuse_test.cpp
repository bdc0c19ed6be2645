// Streams and events that the caller may not use: those of other contexts, of other ranks, and
// inside kernels.

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/runtime/stream/queued_topology.h"
#include "test/support/error_text.h"

namespace kernbench::test::stream_misuse_test {
namespace {

struct Use {
  std::string_view name;
  std::function<void(const ahbm::Stream&, const ahbm::Event&)> call;
};

// Every method of a stream and of an event.
std::vector<Use> all_uses() {
  return {
      {"wait_stream", [](auto& s, auto&) { s.wait_stream(s); }},
      {"wait_event", [](auto& s, auto& e) { s.wait_event(e); }},
      {"record", [](auto& s, auto& e) { s.record_event(e); }},
      {"record_event", [](auto& s, auto&) { s.record_event(); }},
      {"set_stream", [](auto& s, auto&) { s.make_current(); }},
      {"synchronize", [](auto& s, auto&) { s.synchronize(); }},
      {"query", [](auto& s, auto&) { s.query(); }},
      {"torch.ahbm.stream", [](auto& s, auto&) { const ahbm::StreamContext scope(s); }},
      {"Event.record", [](auto&, auto& e) { e.record(); }},
      {"Event.wait", [](auto&, auto& e) { e.wait(); }},
      {"wait_event", [](auto& s, auto& e) { e.wait(s); }},
      {"Event.query", [](auto&, auto& e) { e.query(); }},
      {"Event.synchronize", [](auto&, auto& e) { e.synchronize(); }},
      {"Event.elapsed_time", [](auto&, auto& e) { e.elapsed_time(e); }},
  };
}

TEST_CASE("no method of a stream or an event can be called inside a kernel", "[stream][error]") {
  for (const bool blocking : {false, true}) {
    RuntimeContext torch(small_topology(), {.launch_blocking = blocking});
    const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
    const ahbm::Stream s = torch.ahbm.Stream();
    const ahbm::Event e = torch.ahbm.Event();
    const auto refused = [&](std::string_view name, const std::function<void()>& call) {
      CAPTURE(name, blocking);
      const std::string text = error_of<CollectiveError>([&] {
        torch.launch(
            "k", [&](tl::Context&, tl::Pointer) { call(); }, x);
      });
      CHECK_THAT(text, Says("KB-R012", name, "kernel 'k'"));
    };
    for (const Use& use : all_uses()) {
      refused(use.name, [&] { use.call(s, e); });
    }
    refused("torch.ahbm.synchronize", [&] { torch.ahbm.synchronize(); });
    refused("torch.ahbm.Event", [&] { torch.ahbm.Event(); });
    refused("torch.ahbm.set_device", [&] { torch.ahbm.set_device(1); });
    refused("torch.ahbm's streams", [&] { torch.ahbm.Stream(); });
    refused("torch.ahbm.stream", [&] { const auto scope = torch.ahbm.stream(s); });
  }
}

TEST_CASE("streams and events of another context are refused by name", "[stream][error]") {
  RuntimeContext torch(small_topology(), kQueued);
  RuntimeContext other(small_topology(), kQueued);
  const ahbm::Stream own = torch.ahbm.Stream();
  const ahbm::Event event = torch.ahbm.Event();
  const ahbm::Stream foreign = other.ahbm.Stream(1);
  const ahbm::Event foreign_event = foreign.record_event();
  const auto refused = [](const std::function<void()>& call) {
    return error_of<DeviceError>(call);
  };
  CHECK_THAT(refused([&] { torch.ahbm.set_stream(foreign); }),
             Says("KB-M013", "torch.ahbm.set_stream", "stream 1 of device 1", "another context"));
  CHECK_THAT(refused([&] { torch.accelerator.set_stream(foreign); }), Says("KB-M013"));
  CHECK_THAT(refused([&] { const auto scope = torch.ahbm.stream(foreign); }),
             Says("KB-M013", "torch.ahbm.stream", "stream 1 of device 1"));
  CHECK_THAT(refused([&] { own.wait_stream(foreign); }),
             Says("KB-M013", "Stream.wait_stream", "stream 1 of device 1 belongs to another",
                  "than stream 1 of device 0"));
  CHECK_THAT(
      refused([&] { own.wait_event(foreign_event); }),
      Says("KB-M013", "Stream.wait_event", "an Event of stream 1 of device 1", "than stream 1"));
  CHECK_THAT(refused([&] { foreign_event.wait(own); }), Says("KB-M013", "than stream 1"));
  CHECK_THAT(refused([&] { own.record_event(foreign_event); }), Says("KB-M013", "Event.record"));
  CHECK_THAT(refused([&] { event.record(foreign); }), Says("KB-M013", "Event.record"));
  const ahbm::Event a = torch.ahbm.Event({.enable_timing = true});
  const ahbm::Event b = other.ahbm.Event({.enable_timing = true});
  a.record();
  b.record();
  torch.ahbm.synchronize();
  other.ahbm.synchronize();
  CHECK_THAT(refused([&] { a.elapsed_time(b); }), Says("KB-M013", "Event.elapsed_time"));
  CHECK(torch.ahbm.current_stream() == torch.ahbm.default_stream());
}

TEST_CASE("streams and events of a context that has ended are refused", "[stream][error]") {
  auto ended = std::make_unique<RuntimeContext>(small_topology(), kQueued);
  const ahbm::Stream s = ended->ahbm.Stream();
  const ahbm::Event e = s.record_event();
  ended.reset();
  for (const Use& use : all_uses()) {
    CAPTURE(use.name);
    CHECK_THAT(error_of<CollectiveError>([&] { use.call(s, e); }), Says("KB-R013", "has ended"));
  }
}

TEST_CASE("a stream and an event belong to the rank that made them", "[stream][error]") {
  RuntimeContext torch(small_topology(), kQueued);
  const ahbm::Stream of_driver = torch.ahbm.Stream();
  std::optional<ahbm::Stream> s;
  std::optional<ahbm::Event> e;
  const auto refused = [&](std::string_view of, std::string_view user) {
    for (const Use& use : all_uses()) {
      CAPTURE(use.name);
      CHECK_THAT(error_of<CollectiveError>([&] { use.call(*s, *e); }),
                 Says("KB-R020", of, user, "each rank makes its own"));
    }
  };
  run_ranks(torch, 2, [&](int rank) {
    if (rank == 0) {
      s = torch.ahbm.Stream();
      e = s->record_event();
      CHECK_THAT(error_of<CollectiveError>([&] { of_driver.query(); }),
                 Says("KB-R020", "stream 1 of device 0", "outside of ranks", "rank 0 uses it"));
      torch.ahbm.synchronize();
    } else {
      refused("belongs to rank 0", "rank 1 uses it");
    }
  });
  refused("belongs to rank 0 of a spawn() that has ended", "the code outside of ranks uses it");
  run_ranks(torch, 1, [&](int) { refused("of a spawn() that has ended", "rank 0 uses it"); });
  CHECK(of_driver.query());
}

TEST_CASE("a handle that was moved from is refused", "[stream][error]") {
  RuntimeContext torch(small_topology(), kQueued);
  ahbm::Stream s = torch.ahbm.Stream();
  const ahbm::Stream to = std::move(s);
  CHECK_THAT(error_of<CollectiveError>([&] { s.synchronize(); }), Says("KB-R020", "moved from"));
  CHECK_THAT(error_of<CollectiveError>([&] { torch.ahbm.set_stream(s); }), Says("KB-R020"));
}

TEST_CASE("scopes of streams end in any order", "[stream]") {
  RuntimeContext torch(small_topology(), kQueued);
  const ahbm::Stream a = torch.ahbm.Stream(0);
  const ahbm::Stream b = torch.ahbm.Stream(0);
  const ahbm::Stream c = torch.ahbm.Stream(1);
  const auto scope = [](const ahbm::Stream& s) { return std::make_unique<ahbm::StreamContext>(s); };
  const auto is_at_rest = [&] {
    return torch.ahbm.current_stream(0) == torch.ahbm.default_stream(0) &&
           torch.ahbm.current_stream(1) == torch.ahbm.default_stream(1) &&
           torch.ahbm.current_device() == 0;
  };
  auto first = scope(a);
  auto second = scope(b);
  first.reset();
  CHECK(torch.ahbm.current_stream() == b);
  second.reset();
  CHECK(is_at_rest());

  first = scope(a);
  second = scope(c);
  auto third = scope(b);
  second.reset();  // of another device than the one that hides it
  CHECK(torch.ahbm.current_stream(1) == torch.ahbm.default_stream(1));
  CHECK(torch.ahbm.current_stream(0) == b);
  first.reset();
  CHECK(torch.ahbm.current_stream(0) == b);
  third.reset();
  CHECK(is_at_rest());
}

}  // namespace
}  // namespace kernbench::test::stream_misuse_test
