#include <fmt/format.h>

#include <array>

#include "benches/bench/inputs.h"
#include "benches/bench/settings.h"
#include "benches/cli/commands.h"
#include "benches/cli/probe_output.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/gemm_array.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::cli {

namespace {

sim::PeLocation parse_pe(std::string_view option, const std::string& text,
                         const Topology& topology) {
  const auto location = sim::parse_pe_location(text);
  if (!location) {
    throw UsageError("KB-U012", "{} {}: expected a PE such as sip0.cube0.pe0", option,
                     in_quotes(text));
  }
  if (!sim::exists(topology, *location)) {
    throw UsageError("KB-U012", "{} {}: there are sip0 to sip{}, cube0 to cube{}, pe0 to pe{}",
                     option, text, topology.system.sip_count - 1, topology.cube_count() - 1,
                     topology.pe_count() - 1);
  }
  return *location;
}

// Simulates one message on an idle fabric.
Time simulate(const Topology& topology, const sim::Endpoint& from, const sim::Endpoint& to,
              Bytes bytes) {
  sim::Engine engine;
  sim::Fabric fabric(engine, topology, nullptr);
  fabric.send(fabric.path(from, to), bytes, {[](void*, std::uint64_t) {}, nullptr, 0});
  engine.run();
  return engine.now();
}

Json gigabytes_per_s(Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return nullptr;
  return static_cast<double>(bandwidth.per_second) / 1e9;
}

Json as_json(const sim::Routing& routing, const sim::Path& path, Time time) {
  Json hops = Json::array();
  for (const sim::LinkId link : path.links) {
    const LinkSpec& spec = routing.spec(link);
    hops.push_back({{"link", routing.name(link)},
                    {"latency_ns", to_ns(spec.latency)},
                    {"bandwidth_gbs", gigabytes_per_s(spec.bandwidth)}});
  }
  return {{"latency_ns", to_ns(path.latency)},
          {"time_ns", to_ns(time)},
          {"bottleneck_gbs", gigabytes_per_s(path.bottleneck)},
          {"hops", hops}};
}

std::string as_text(const sim::Routing& routing, const sim::Path& path, Bytes bytes, Time time) {
  std::string text =
      fmt::format("#{:>4}  {:<28}  {:>12}  {:>12}\n", "hop", "link", "latency", "bandwidth");
  int number = 0;
  for (const sim::LinkId link : path.links) {
    const LinkSpec& spec = routing.spec(link);
    text += fmt::format("{:>5}  {:<28}  {:>12}  {:>12}\n", ++number, routing.name(link),
                        to_string(spec.latency), to_string(spec.bandwidth));
  }
  text += fmt::format("#\n#   latency      {}, the sum over the hops\n", to_string(path.latency));
  text += fmt::format("#   bottleneck   {}\n", to_string(path.bottleneck));
  text += fmt::format("#   closed form  {} = {} + {} B / {}\n", to_string(path.time_of(bytes)),
                      to_string(path.latency), bytes, to_string(path.bottleneck));
  text += fmt::format("#   simulated    {}, one message on an idle fabric\n", to_string(time));
  return text;
}

constexpr std::int64_t kMaxSize = 999'999'999'999'999'999;  // what parse_integer() reads

std::int64_t parse_size(std::string_view option, const std::string& text,
                        std::int64_t max = kMaxSize) {
  return parse_number(option, text, 1, max);
}

Dataflow parse_dataflow(const std::string& text) {
  std::array<std::string_view, kDataflows.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = name_of(kDataflows[i]);
    if (names[i] == text) return kDataflows[i];
  }
  throw UsageError("KB-U012", "--dataflow {}: not known{}", in_quotes(text),
                   suggestion(text, names));
}

// The topology's array, with the changes given on the command line.
GemmSpec parse_array(const ProbeGemmArguments& arguments, GemmSpec array) {
  constexpr std::int64_t kMaxSide = 1 << 20;
  if (!arguments.rows.empty()) {
    array.rows = static_cast<int>(parse_size("--rows", arguments.rows, kMaxSide));
  }
  if (!arguments.columns.empty()) {
    array.columns = static_cast<int>(parse_size("--columns", arguments.columns, kMaxSide));
  }
  if (!arguments.dataflow.empty()) array.dataflow = parse_dataflow(arguments.dataflow);
  return array;
}

}  // namespace

int probe(const ProbePathArguments& arguments) {
  const Topology topology = load_topology(arguments.topology);
  const sim::Endpoint from{sim::Endpoint::Kind::tcm, parse_pe("--from", arguments.from, topology)};
  const sim::Endpoint to{sim::Endpoint::Kind::tcm, parse_pe("--to", arguments.to, topology)};
  const Bytes bytes = parse_bytes("--bytes", arguments.bytes);

  const sim::Routing routing(topology);
  const sim::Path path = routing.route(from, to);
  const Time time = simulate(topology, from, to, bytes);
  KB_CHECK(time == path.time_of(bytes), "{} B from {} to {} took {}, in closed form {}", bytes,
           arguments.from, arguments.to, to_string(time), to_string(path.time_of(bytes)));
  show(arguments.json, as_json(routing, path, time),
       first_line(fmt::format("{} B, TCM to TCM, {} -> {}", bytes, arguments.from, arguments.to),
                  topology) +
           as_text(routing, path, bytes, time));
  return 0;
}

int probe(const ProbeGemmArguments& arguments) {
  const Topology topology = load_topology(arguments.topology);
  const GemmSpec array = parse_array(arguments, topology.pe.gemm);
  const sim::GemmSize size{parse_size("--m", arguments.m), parse_size("--n", arguments.n),
                           parse_size("--k", arguments.k)};
  const auto use = sim::gemm_array_use(array, size);
  if (!use) {
    throw UsageError("KB-U012", "--m {} --n {} --k {}: the cycles do not fit in 64 bits", size.m,
                     size.n, size.k);
  }
  const double utilization = sim::gemm_utilization(array, size, *use);
  std::string text =
      first_line(fmt::format("GEMM [{}, {}] x [{}, {}]", size.m, size.k, size.k, size.n), topology);
  text += fmt::format("#   array         {} x {}, {}\n", array.rows, array.columns,
                      name_of(array.dataflow));
  text += array.overlap ? fmt::format("#   folds         {}, which overlap\n", use->folds)
                        : fmt::format("#   folds         {}, of {} cycles each\n", use->folds,
                                      use->cycles / use->folds);
  text += fmt::format("#   cycles        {}\n", use->cycles);
  text += fmt::format("#   utilization   {:.2f} %\n", utilization * 100);
  show(arguments.json,
       Json{{"cycles", use->cycles}, {"utilization", utilization}, {"folds", use->folds}}, text);
  return 0;
}

}  // namespace kernbench::benches::cli
