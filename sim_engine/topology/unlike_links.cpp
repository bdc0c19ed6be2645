#include "sim_engine/topology/unlike_links.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "sim_engine/topology/location.h"

namespace kernbench {

namespace {

constexpr std::string_view kDimensions = "xyz";
constexpr std::string_view kSip = "sip";

// "sip3"
std::optional<int> parse_sip(std::string_view text) {
  if (!text.starts_with(kSip)) return std::nullopt;
  text.remove_prefix(kSip.size());
  int sip = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sip);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  const bool is_plain = is_whole && text == fmt::to_string(sip);  // each SIP has one name
  return is_plain ? std::optional(sip) : std::nullopt;
}

bool are_neighbours(const Topology::System& system, int a, int b) {
  const sim::Grid grid = sim::node_grid(system);
  const int in_node = grid.count();
  if (a / in_node != b / in_node) return false;
  if (system.topology == SipTopology::full_mesh) return a != b;
  for (int i = 0; i < sim::kCompassCount; ++i) {
    const int next = grid.neighbour(a % in_node, static_cast<sim::Compass>(i));
    if (a != b && next == b % in_node) return true;
  }
  return false;
}

}  // namespace

std::string to_string(const UnlikeLinks& links) {
  switch (links.of) {
    case UnlikeLinks::Of::dimension:
      return std::string(kDimensions.substr(static_cast<std::size_t>(links.first), 1));
    case UnlikeLinks::Of::pair:
      return fmt::format("sip{}-sip{}", links.first, links.second);
    case UnlikeLinks::Of::sip:
      break;
  }
  return fmt::format("sip{}", links.first);
}

std::optional<UnlikeLinks> parse_unlike_links(std::string_view name) {
  if (name.size() == 1 && kDimensions.find(name) != kDimensions.npos) {
    return UnlikeLinks{UnlikeLinks::Of::dimension, static_cast<int>(kDimensions.find(name)), 0, {}};
  }
  const std::size_t dash = name.find('-');
  const std::optional<int> first = parse_sip(name.substr(0, dash));
  if (!first) return std::nullopt;
  if (dash == name.npos) return UnlikeLinks{UnlikeLinks::Of::sip, *first, 0, {}};
  const std::optional<int> second = parse_sip(name.substr(dash + 1));
  if (!second || *second < *first) return std::nullopt;
  return UnlikeLinks{UnlikeLinks::Of::pair, *first, *second, {}};
}

std::string describe_missing_links(const Topology::System& system, const UnlikeLinks& links) {
  const std::string_view network = name_of(system.topology);
  if (links.of == UnlikeLinks::Of::dimension) {
    if (joins_all(system.topology)) {
      return fmt::format("{} has no dimensions; name a SIP, or two", network);
    }
    const int size =
        std::array{system.w, system.h, system.d}.at(static_cast<std::size_t>(links.first));
    return size > 1 ? "" : fmt::format("SIPs have no neighbours in this dimension of {}", network);
  }
  for (const int sip : {links.first, links.second}) {
    if (sip < 0 || sip >= system.sip_count) {
      return fmt::format("no such SIP; there are {}, from sip0", system.sip_count);
    }
  }
  if (links.of == UnlikeLinks::Of::sip) {
    const bool has_some = system.sip_count > system.node_count();
    return has_some ? "" : "a SIP by itself has no such links";
  }
  if (system.topology == SipTopology::switched) {
    return "a switch joins no two SIPs directly; name one of them";
  }
  if (are_neighbours(system, links.first, links.second)) return "";
  return fmt::format("these SIPs are no neighbours in {}{}", network,
                     system.node_count() > 1 ? " of a node" : "");
}

namespace sim {

bool include(const UnlikeLinks& links, int sip, int number, int other) {
  constexpr int kWays = 2;  // of a dimension, which Compass has side by side
  switch (links.of) {
    case UnlikeLinks::Of::dimension:
      return number / kWays == links.first;
    case UnlikeLinks::Of::pair:
      return (sip == links.first && other == links.second) ||
             (sip == links.second && other == links.first);
    case UnlikeLinks::Of::sip:
      break;
  }
  return sip == links.first || other == links.first;
}

}  // namespace sim

}  // namespace kernbench
