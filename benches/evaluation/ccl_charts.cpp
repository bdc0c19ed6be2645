#include "benches/evaluation/ccl_charts.h"

#include <fmt/format.h>

#include "benches/bench/inputs.h"

namespace kernbench::benches::evaluation {

namespace {

using Texts = std::vector<std::string>;

Texts topologies() {
  return {kEvaluatedTopologies.begin(), kEvaluatedTopologies.end()};
}

Texts topologies_and_one_device() {
  Texts names = topologies();
  names.emplace_back(kOneDevice);
  return names;
}

// "intercube_allreduce, queues in tcm"
std::string what_runs(const Row& row) {
  return fmt::format("{}, queues in {}", text_in(row, "algorithm"), text_in(row, "buffer_kind"));
}

}  // namespace

figure::Chart latency_chart(std::span<const Row> latency) {
  const Topology topology = load_topology(text_in(latency.front(), "topology"));
  return {.form = "latency",
          .csv = "summary.csv",
          .title = "all_reduce: latency over size",
          .subtitle = fmt::format("{} SIPs of {}; {}", topology.system.sip_count,
                                  describe_sip(topology), what_runs(latency.front())),
          .note =
              "Theory: intercube_allreduce where only links cost time (ADR-0193). Lower bound: "
              "what the links between SIPs allow any algorithm.",
          .key_rows = 2,
          .values = {{"topology", topologies()}}};
}

figure::Chart buffer_kind_chart(std::span<const Row> buffer_kinds) {
  Texts kinds;
  for (const sim::BufferKind kind : sim::kBufferKinds) kinds.emplace_back(name_of(kind));
  const std::string& topology = text_in(buffer_kinds.front(), "topology");
  return {.form = "buffer_kinds",
          .csv = "buffer_kinds.csv",
          .title = fmt::format("all_reduce on {}: where the queues lie", topology),
          .subtitle = fmt::format("{}; {}", describe(load_topology(topology)),
                                  text_in(buffer_kinds.front(), "algorithm")),
          .note =
              "Queues of 8 slots, so that all messages go through them. Lower bound: what the "
              "links between SIPs allow any algorithm.",
          .values = {{"kind", kinds}}};
}

figure::Chart fsim_chart(std::span<const Row> latency, const FsimReference& reference) {
  return {
      .form = "model_vs_fsim",
      .csv = "summary.csv",
      .title = "all_reduce: the model beside FSIM",
      .subtitle = fmt::format("model: 6 devices, and one of them; {}", what_runs(latency.front())),
      .note =
          "FSIM: a single figure of another simulator, for one device; what it reduced was "
          "not recorded. The y axis has one scale below and above its break.",
      .key_rows = 2,
      .values = {{"topology", topologies_and_one_device()},
                 {"fsim", to_ns(reference.latency) / 1e3},
                 {"fsim_name", fmt::format("FSIM, {} device{}", reference.devices,
                                           reference.devices == 1 ? "" : "s")}}};
}

}  // namespace kernbench::benches::evaluation
