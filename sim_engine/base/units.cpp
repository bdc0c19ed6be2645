#include "sim_engine/base/units.h"

#include <fmt/format.h>

#include <string_view>

namespace kernbench {

namespace {

// `value` / `scale` in decimal, exact, without trailing zeros.
std::string decimal(std::int64_t value, std::int64_t scale) {
  std::string text = fmt::format("{}", value / scale);
  std::int64_t rest = value % scale;
  if (rest == 0) return text;
  text += '.';
  for (; rest != 0; rest %= scale) {
    rest *= 10;
    text += static_cast<char>('0' + rest / scale);
  }
  return text;
}

}  // namespace

Time duration_of(std::int64_t count, std::int64_t per_second) {
  constexpr std::int64_t kFitsInWord =
      std::numeric_limits<std::int64_t>::max() / kPicosecondsPerSecond - 1;
  if (count <= kFitsInWord) [[likely]] {  // a 64-bit division is several times faster
    const std::int64_t scaled = count * kPicosecondsPerSecond;
    return Time{scaled / per_second + (scaled % per_second != 0)};
  }
  const Wide scaled = static_cast<Wide>(count) * kPicosecondsPerSecond;
  return Time{static_cast<std::int64_t>((scaled + per_second - 1) / per_second)};
}

std::string to_string(Time time) {
  return decimal(time.count(), 1000) + " ns";
}

std::string to_string(Time time, std::string_view specification) {
  return fmt::format(fmt::runtime(fmt::format("{{:{}}}", specification)), to_string(time));
}

std::string to_string(Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return "unlimited";
  return decimal(bandwidth.per_second, 1'000'000'000) + " GB/s";
}

}  // namespace kernbench
