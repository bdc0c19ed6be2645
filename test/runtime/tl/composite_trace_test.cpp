// Tests what the trace shows of a kernel whose units overlap.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/trace/trace_recorder.h"
#include "test/runtime/tl/composite_under_test.h"

namespace kernbench::test::composite_trace_test {
namespace {

using Json = nlohmann::json;

struct Span {
  std::int64_t start;  // in picoseconds
  std::int64_t end;
  std::string label;
};

// By name of the track, in the order of their starts.
std::map<std::string, std::vector<Span>> spans_of(RuntimeContext& torch) {
  const Json json = Json::parse(simulation_of(torch).machine().trace()->to_json());
  std::map<int, std::string> tracks;
  std::map<std::string, std::vector<Span>> spans;
  for (const Json& event : json["traceEvents"]) {
    if (event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
  }
  const auto picoseconds = [](const Json& us) { return std::llround(us.get<double>() * 1e6); };
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::int64_t start = picoseconds(event["ts"]);
    spans[tracks.at(event["tid"])].push_back(
        {start, start + picoseconds(event["dur"]), event["name"]});
  }
  for (auto& [track, list] : spans) std::ranges::stable_sort(list, {}, &Span::start);
  return spans;
}

// [40, 25] x [25, 40] in tiles of 10, 10 and 25 on an array of 2 x 2.
std::map<std::string, std::vector<Span>> trace_of_composite() {
  Topology topology = round_topology();
  topology.pe.gemm = {.rows = 2, .columns = 2, .clock = Frequency{1'000'000'000}};
  CompositeUnderTest gemm({40, 40, 25}, DType::f32, DType::f32, topology, {.trace = true});
  gemm.run([](tl::CompositeGemm& composite) {
    composite.tile_m = composite.tile_n = 10;
    composite.tile_k = 25;
    composite.activation = tl::Activation::relu;
  });
  return spans_of(gemm.torch);
}

TEST_CASE("the trace shows a composite and its parts, each on the track of its unit",
          "[tl][composite][trace]") {
  auto spans = trace_of_composite();
  REQUIRE(spans["cube0.pe0.composite"].size() == 1);
  const Span& whole = spans["cube0.pe0.composite"].front();
  CHECK(whole.label == "composite [40, 25] x [25, 40]");
  CHECK(spans["cube0.pe0.gemm"].size() == 16);
  CHECK(spans["cube0.pe0.gemm"].front().label == "gemm [10, 25] x [25, 10]");
  CHECK(spans["cube0.pe0.math"].size() == 16);
  CHECK(spans["cube0.pe0.math"].front().label == "epilogue 400 B");
  CHECK(spans["cube0.pe0.store"].front().label == "store 400 B");
  for (const auto& [track, list] : spans) {
    if (!track.starts_with("cube0.pe0.") || track == "cube0.pe0.cpu") continue;
    INFO(track);
    CHECK(list.front().start >= whole.start);
    CHECK(list.back().end <= whole.end);
  }
}

TEST_CASE("loads are on the trace while the array works, stores as well",
          "[tl][composite][trace]") {
  auto spans = trace_of_composite();
  const std::vector<Span>& products = spans["cube0.pe0.gemm"];
  const auto is_under_a_product = [&](const Span& span) {
    return std::ranges::any_of(products, [&](const Span& product) {
      return product.start <= span.start && span.end <= product.end;
    });
  };
  // The loads of the first product come before it, and the last result is stored after it.
  CHECK(std::ranges::count_if(spans["cube0.pe0.load"], is_under_a_product) >= 14);
  CHECK(std::ranges::count_if(spans["cube0.pe0.store"], is_under_a_product) == 15);
}

TEST_CASE("spans of one track follow each other: what overlaps has a lane of its own",
          "[tl][composite][trace]") {
  for (const auto& [track, list] : trace_of_composite()) {
    INFO(track);
    for (std::size_t i = 1; i < list.size(); ++i) {
      INFO(list[i - 1].label << ", then " << list[i].label);
      REQUIRE(list[i - 1].end <= list[i].start);
    }
  }
}

}  // namespace
}  // namespace kernbench::test::composite_trace_test
