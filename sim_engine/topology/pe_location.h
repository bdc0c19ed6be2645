#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace kernbench::sim {

// A processing element, by the indices that the user sees.
struct PeLocation {
  int sip = 0;
  int cube = 0;  // row-major in the SIP's cube mesh
  int pe = 0;    // in the cube

  friend auto operator<=>(const PeLocation&, const PeLocation&) = default;
};

// The switch between SIPs, where a queue leads to it or from it.
inline constexpr PeLocation kSwitchLocation{-1, 0, 0};

// "sip0.cube3.pe5"; "switch"
std::string to_string(const PeLocation& location);

// The inverse; nullopt if `text` has another form.  It does not check whether the PE exists.
std::optional<PeLocation> parse_pe_location(std::string_view text);

}  // namespace kernbench::sim
