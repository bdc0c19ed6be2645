// `probe bound` prints the time that a collective of a group cannot beat, and `probe choose` the
// algorithm that it runs by.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "benches/bench/inputs.h"
#include "benches/bench/settings.h"
#include "benches/bench/split_list.h"
#include "benches/cli/commands.h"
#include "benches/cli/probe_output.h"
#include "benches/collectives/measured_collective.h"
#include "ccl/backend/choice.h"
#include "ccl/core/lower_bound.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/line_width.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::benches::cli {

namespace {

constexpr Bytes kSmallest = 4;
constexpr Bytes kLargest = Bytes{64} << 20;

std::vector<int> parse_group(const std::string& text, const Topology& topology) {
  std::vector<int> ranks;
  if (text.empty()) {
    ranks.resize(static_cast<std::size_t>(topology.system.sip_count));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  for (const std::string_view rank : split_list("--group " + text, text)) {
    ranks.push_back(
        static_cast<int>(parse_number("--group", rank, 0, topology.system.sip_count - 1)));
  }
  std::ranges::sort(ranks);
  return ranks;
}

collectives::MeasuredCollective parse_collective(const std::string& text) {
  std::vector<std::string_view> names;
  for (const collectives::MeasuredCollective one : collectives::kMeasuredCollectives) {
    if (one == collectives::MeasuredCollective::sendrecv)
      continue;  // messages, which one algorithm brings
    names.push_back(name_of(one));
    if (names.back() == text) return one;
  }
  throw UsageError("KB-U005", "no bound is known for the collective {}{}", in_quotes(text),
                   suggestion(text, names));
}

std::string group_text(const std::vector<int>& ranks, const Topology& topology) {
  if (static_cast<int>(ranks.size()) == topology.system.sip_count) {
    return fmt::format("all {} ranks", ranks.size());
  }
  return fmt::format("ranks {}", fmt::join(ranks, ", "));
}

// The bytes of the block that a member gives to, or takes from, each other one, if the whole has
// this size.
Bytes block_bytes(collectives::MeasuredCollective collective, Bytes size, std::size_t ranks) {
  return size / collectives::spec_of(collective).blocks_in_size(static_cast<int>(ranks));
}

// A list that is too long ends with an ellipsis; JSON has all of it.
std::string in_line_width(const std::string& line) {
  if (line.size() <= kLineWidth) return line;
  return line.substr(0, line.rfind(',', kLineWidth - 5)) + ", ...";
}

}  // namespace

int probe(const ProbeBoundArguments& arguments) {
  const Topology topology = load_topology(arguments.topology);
  const collectives::MeasuredCollective collective = parse_collective(arguments.collective);
  const std::vector<int> group = parse_group(arguments.group, topology);
  const Bytes bytes = parse_bytes("--bytes", arguments.bytes);
  const auto root =
      static_cast<int>(parse_number("--root", arguments.root, 0, std::ssize(group) - 1));
  const Time bound =
      ccl::collective_lower_bound(topology, group, collectives::to_collective_kind(collective),
                                  block_bytes(collective, bytes, group.size()), root);
  const LinkSpec& link = topology.system.sip_link;
  std::string text = first_line(
      fmt::format("{} of {} B over {}", name_of(collective), bytes, group_text(group, topology)),
      topology);
  text += fmt::format("#   links         {} directed, {} and {} each\n",
                      ccl::directed_link_count(topology), to_string(link.bandwidth),
                      to_string(link.latency));
  for (const UnlikeLinks& links : topology.system.unlike_links) {
    text += fmt::format("#   but {:<9} {} and {} each\n", to_string(links),
                        to_string(links.link.bandwidth), to_string(links.link.latency));
  }
  const sim::SipNetwork network(topology);
  for (int level = network.level_count(); level > 0; --level) {
    const LinkSpec& between = network.nodes(level).link;
    const std::string name =
        level == network.level_count() ? "between nodes" : network.section_of(level);
    text += fmt::format("#   {:<13} {} directed, {} and {} each\n", name,
                        network.node_link_count(level), to_string(between.bandwidth),
                        to_string(between.latency));
  }
  text += fmt::format("#   lower bound   {}\n", to_string(bound));
  show(arguments.json, Json{{"lower_bound_ns", to_ns(bound)}}, text);
  return 0;
}

int probe(const ProbeChooseArguments& arguments) {
  const Topology topology = load_topology(arguments.topology);
  const ccl::Config ccl = load_ccl(ccl_of(arguments.topology, arguments.ccl));
  if (ccl.world_size()) {
    throw ConfigError("KB-Y043",
                      "world_size in the file of --ccl: groups are of SIPs; take it out");
  }
  const collectives::MeasuredCollective collective = parse_collective(arguments.collective);
  const std::vector<int> group = parse_group(arguments.group, topology);
  const int pes = pes_of_sip(topology);
  const int lanes = arguments.lanes.empty()
                        ? pes
                        : static_cast<int>(parse_number("--lanes", arguments.lanes, 1, pes));
  ccl::AlgorithmChoice choice(topology, ccl, ccl::shape_of_sips(topology, group), group,
                              static_cast<int>(group.size()) == topology.system.sip_count
                                  ? "default_pg"
                                  : arguments.group_name);
  choice.check_configured();
  std::string text = first_line(
      fmt::format("{} over {}", name_of(collective), group_text(group, topology)), topology);
  text += fmt::format("#   lanes         at most {} PEs of each SIP send\n", lanes);
  text +=
      "#   why           named by ccl.yaml, the fastest by the model, or the default of all\n#\n";
  text += fmt::format("#{:>10}  {:<28}  {:<7}  {:>11}  {}\n", "size (B)", "algorithm", "why",
                      "model", "the others, the fastest first");
  Json rows = Json::array();
  bool are_fastest = true;
  for (Bytes size = kSmallest; size <= kLargest; size *= 2) {
    const Bytes block = std::max<Bytes>(block_bytes(collective, size, group.size()), 1);
    const ccl::Chosen chosen =
        choice.explain(collectives::to_collective_kind(collective), {block, lanes});
    are_fastest = are_fastest && chosen.is_fastest;
    rows.push_back({{"bytes", size},
                    {"algorithm", chosen.algorithm->name},
                    {"is_configured", chosen.is_configured},
                    {"why", chosen.why},
                    {"model_ns", chosen.time ? Json(to_ns(*chosen.time)) : Json()},
                    {"others", chosen.others}});
    text += in_line_width(fmt::format("{:>11}  {:<28}  {:<7}  {:>11}  {}", size,
                                      chosen.algorithm->name, chosen.why,
                                      chosen.time ? to_string(*chosen.time) : "-", chosen.others)) +
            '\n';
  }
  if (!are_fastest) {
    text +=
        "#\n# Where another one is faster, the default or ccl.yaml names what runs; "
        "`algorithm: auto` there takes the fastest.\n";
  }
  show(arguments.json, rows, text);
  return 0;
}

}  // namespace kernbench::benches::cli
