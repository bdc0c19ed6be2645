// The overlap of backward as the trace shows it.

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/trace/trace_recorder.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"

namespace kernbench::test::overlap_trace_test {
namespace {

using Json = nlohmann::json;

struct Span {
  double start;
  double end;
};

// Returns the spans of SIP 0 whose label begins so.
std::vector<Span> spans_of(const Json& trace, const std::string& label) {
  std::vector<Span> spans;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != 0) continue;
    if (event["name"].get<std::string>().find(label) != 0) continue;
    const auto start = event["ts"].get<double>();
    spans.push_back({start, start + event["dur"].get<double>()});
  }
  return spans;
}

// How many of the first lie inside of one of the second.
std::ptrdiff_t count_inside(const std::vector<Span>& inner, const std::vector<Span>& outer) {
  return std::ranges::count_if(inner, [&](const Span& span) {
    return std::ranges::any_of(outer, [&](const Span& other) {
      return other.start <= span.start && span.end <= other.end;
    });
  });
}

// A step forward and backward on 4 ranks.
Json trace_of_step(bool overlap) {
  Topology topology = link_topology(SipTopology::ring_1d, 4);
  topology.pe.gemm = {.rows = 16, .columns = 16, .clock = Frequency{1'000'000'000}};
  TensorParallelWorld world(topology, {.backend = "ahbm",
                                       .parallel = {.tensor_model_parallel_size = 4},
                                       .runtime = {.trace = true}});
  world.spawn([&](int) {
    const tp::ColumnParallelLinear layer(world.torch,
                                         {.in_features = 64,
                                          .out_features = 256,
                                          .bias = false,
                                          .async_tensor_model_parallel_allreduce = overlap});
    const TensorOptions f16{.dtype = DType::f16, .dp = DPPolicy::on_one_pe()};
    Tensor x = world.torch.ones({256, 64}, f16);
    x.requires_grad_();
    layer.forward(x).backward(world.torch.ones({256, 64}, f16));
  });
  return Json::parse(simulation_of(world.torch).machine().trace()->to_json());
}

TEST_CASE("the trace shows messages of the all_reduce while the array makes the weight's gradient",
          "[tp][overlap][trace]") {
  for (const bool overlap : {false, true}) {
    const Json trace = trace_of_step(overlap);
    const std::vector<Span> products = spans_of(trace, "gemm");
    const std::vector<Span> messages = spans_of(trace, "send");
    REQUIRE(products.size() >= 3);
    REQUIRE(!messages.empty());
    CAPTURE(overlap, products.size(), messages.size());
    CHECK((count_inside(messages, products) > 0) == overlap);
  }
}

}  // namespace
}  // namespace kernbench::test::overlap_trace_test
