// Simulated time, sizes and rates.  All integers: the time model has no floating point.

#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace kernbench {

// Simulated time: an integer number of picoseconds (ADR-0100).
using Time = std::chrono::duration<std::int64_t, std::pico>;
using Bytes = std::int64_t;

// 128-bit integers: a product of two 64-bit quantities, as bytes * 10^12, without overflow.
__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

inline constexpr std::int64_t kPicosecondsPerSecond = 1'000'000'000'000;

// A number of `Unit`s per second.  A rate may be unlimited: then transfers at it cost no time.
template <class Unit>
struct Rate {
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

  std::int64_t per_second = kUnlimited;

  static constexpr Rate unlimited() { return {}; }
  constexpr bool is_unlimited() const { return per_second == kUnlimited; }
  friend constexpr bool operator==(Rate, Rate) = default;
  friend constexpr auto operator<=>(Rate, Rate) = default;
};

// A share of a whole, as the efficiency of a link: 92.5 % is {925'000}.
struct Share {
  static constexpr int kWhole = 1'000'000;

  int millionths = kWhole;

  constexpr bool is_whole() const { return millionths == kWhole; }
  friend constexpr bool operator==(Share, Share) = default;
};

using Bandwidth = Rate<struct ByteUnit>;   // bytes per second; GB/s is 10^9
using Frequency = Rate<struct CycleUnit>;  // cycles per second

// Time for `count` units at `per_second`, rounded up to a whole picosecond.  0 if unlimited.
// REQUIRES: count >= 0
Time duration_of(std::int64_t count, std::int64_t per_second);

inline Time transfer_time(Bytes bytes, Bandwidth bandwidth) {
  return bandwidth.is_unlimited() ? Time{0} : duration_of(bytes, bandwidth.per_second);
}
inline Time cycles_time(std::int64_t cycles, Frequency clock) {
  return clock.is_unlimited() ? Time{0} : duration_of(cycles, clock.per_second);
}

// Nanoseconds, for reports only.
inline double to_ns(Time time) {
  return static_cast<double>(time.count()) / 1e3;
}

// "18240 ns", "0.5 ns": exact, in nanoseconds, no trailing zeros.
std::string to_string(Time time);
// "64 GB/s", "unlimited".
std::string to_string(Bandwidth bandwidth);

// fmt::print("{}", time): a Time as to_string() writes it, with the width and alignment of texts.

// Formats to_string(time) with a format specification of fmt for texts, e.g. ">12".  Throws
// fmt::format_error if the specification is invalid.
std::string to_string(Time time, std::string_view specification);

}  // namespace kernbench

template <>
struct fmt::formatter<kernbench::Time> {
  constexpr auto parse(fmt::format_parse_context& context) {
    auto end = context.begin();
    while (end != context.end() && *end != '}') ++end;
    specification_ =
        std::string_view(context.begin(), static_cast<std::size_t>(end - context.begin()));
    return end;
  }

  template <class FormatContext>
  auto format(kernbench::Time time, FormatContext& context) const {
    const std::string text = kernbench::to_string(time, specification_);
    auto out = context.out();
    for (const char c : text) *out++ = c;
    return out;
  }

 private:
  std::string_view specification_;
};
