#include <fmt/format.h>

#include <charconv>

#include "sim_engine/topology/location.h"

namespace kernbench::sim {

namespace {

// Consumes `prefix` and a number from the front of `text`.
std::optional<int> take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || text.starts_with('-')) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

std::string to_string(const PeLocation& location) {
  if (location == kSwitchLocation) return "switch";
  return fmt::format("sip{}.cube{}.pe{}", location.sip, location.cube, location.pe);
}

std::optional<PeLocation> parse_pe_location(std::string_view text) {
  const auto sip = take(text, "sip");
  const auto cube = sip ? take(text, ".cube") : std::nullopt;
  const auto pe = cube ? take(text, ".pe") : std::nullopt;
  if (!pe || !text.empty()) return std::nullopt;
  return PeLocation{*sip, *cube, *pe};
}

}  // namespace kernbench::sim
