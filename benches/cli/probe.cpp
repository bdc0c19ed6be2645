#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "benches/bench/console.h"
#include "benches/bench/inputs.h"
#include "benches/bench/output_file.h"
#include "benches/bench/report.h"
#include "benches/bench/settings.h"
#include "benches/cli/commands.h"
#include "ccl/core/lower_bound.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/gemm_array.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_scalar.h"

namespace kernbench::benches {

namespace {

using Json = nlohmann::ordered_json;

sim::PeLocation parse_pe(std::string_view option, const std::string& text,
                         const Topology& topology) {
  const auto location = sim::parse_pe_location(text);
  if (!location) {
    throw UsageError("KB-U012", fmt::format("{} {}: expected a PE such as sip0.cube0.pe0", option,
                                            in_quotes(text)));
  }
  if (!sim::exists(topology, *location)) {
    throw UsageError("KB-U012",
                     fmt::format("{} {}: there are sip0 to sip{}, cube0 to cube{}, pe0 to pe{}",
                                 option, text, topology.system.sip_count - 1,
                                 topology.cube_count() - 1, topology.pe_count() - 1));
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

std::string first_line(std::string_view what, const Topology& topology) {
  return fmt::format("# kernbench {}: {} on {} ({})\n#\n", version(), what, topology.name,
                     describe(topology));
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
  const ParsedScalar parsed = parse_integer(text, 1, max);
  if (!parsed.code.empty()) {
    throw UsageError("KB-U012", fmt::format("{} {}: {}", option, in_quotes(text), parsed.fault));
  }
  return parsed.value;
}

Dataflow parse_dataflow(const std::string& text) {
  std::array<std::string_view, kDataflows.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = name_of(kDataflows[i]);
    if (names[i] == text) return kDataflows[i];
  }
  throw UsageError("KB-U012", fmt::format("--dataflow {}: not known{}", in_quotes(text),
                                          suggestion(text, names)));
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

// Writes JSON where it was asked for, and the text to stdout or, if that has the JSON, to stderr.
void show(const std::string& json_name, const Json& json, std::string_view text) {
  if (!json_name.empty()) OutputFile(json_name).commit(json.dump(2) + '\n');
  Console console(json_name == "-" ? STDERR_FILENO : STDOUT_FILENO);
  console.print(text);
  console.finish();
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

int probe(const ProbeBoundArguments& arguments) {
  const Topology topology = load_topology(arguments.topology);
  const Bytes bytes = parse_bytes("--bytes", arguments.bytes);
  constexpr std::array<std::string_view, 1> kCollectives = {"all_reduce"};
  if (arguments.collective != kCollectives.front()) {
    throw UsageError("KB-U005", fmt::format("no bound is known for the collective {}{}",
                                            in_quotes(arguments.collective),
                                            suggestion(arguments.collective, kCollectives)));
  }
  const Time bound = ccl::all_reduce_lower_bound(topology, bytes);
  const LinkSpec& link = topology.system.sip_link;
  std::string text = first_line(fmt::format("all_reduce of {} B per rank", bytes), topology);
  text += fmt::format("#   links         {} directed, {} and {} each\n",
                      ccl::directed_link_count(topology), to_string(link.bandwidth),
                      to_string(link.latency));
  text += fmt::format("#   lower bound   {}\n", to_string(bound));
  show(arguments.json, Json{{"lower_bound_ns", to_ns(bound)}}, text);
  return 0;
}

int probe(const ProbeGemmArguments& arguments) {
  const Topology topology = load_topology(arguments.topology);
  const GemmSpec array = parse_array(arguments, topology.pe.gemm);
  const sim::GemmSize size{parse_size("--m", arguments.m), parse_size("--n", arguments.n),
                           parse_size("--k", arguments.k)};
  const auto use = sim::gemm_array_use(array, size);
  if (!use) {
    throw UsageError("KB-U012",
                     fmt::format("--m {} --n {} --k {}: the cycles do not fit in 64 bits", size.m,
                                 size.n, size.k));
  }
  const double utilization = sim::gemm_utilization(array, size, *use);
  std::string text =
      first_line(fmt::format("GEMM [{}, {}] x [{}, {}]", size.m, size.k, size.k, size.n), topology);
  text += fmt::format("#   array         {} x {}, {}\n", array.rows, array.columns,
                      name_of(array.dataflow));
  text += fmt::format("#   folds         {}, of {} cycles each\n", use->folds,
                      use->cycles / use->folds);
  text += fmt::format("#   cycles        {}\n", use->cycles);
  text += fmt::format("#   utilization   {:.2f} %\n", utilization * 100);
  show(arguments.json,
       Json{{"cycles", use->cycles}, {"utilization", utilization}, {"folds", use->folds}}, text);
  return 0;
}

}  // namespace kernbench::benches
