#include "benches/page/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "benches/figure/svg.h"
#include "benches/page/drawing.h"

namespace kernbench::benches::page {

namespace {

constexpr std::array<std::string_view, 7> kCurveColours = {"c4", "c7", "c9", "c10",
                                                           "c8", "c0", "c2"};
constexpr std::array<std::string_view, 4> kSpeeds = {"as it is", "x2", "x4", "infinite"};
constexpr double kGainsWidth = 60;
constexpr double kSpeedPitch = 160;
constexpr double kCurvesTop = 20;
constexpr double kCurvesHeight = 200;

std::array<double, 4> make_curve(const ResourceGain& gain) {
  return {1, gain.x2, gain.x4, gain.infinite};
}

// A grid of at most six lines from `least` to `most`.
void draw_grid(Drawing& drawing, double least, double most, const auto& y_of) {
  const double right = kGainsWidth + kSpeedPitch * (kSpeeds.size() - 1);
  const double rough = (most - least) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough > 5 * power ? 10 : rough > 2 * power ? 5 : 2);
  for (double at = std::ceil(least / step) * step; at <= most; at += step) {
    drawing.line({kGainsWidth, y_of(at)}, {right, y_of(at)}, "g");
    drawing.text({kGainsWidth - 8, y_of(at) + 4}, fmt::format("{:.4g}", at), "t e");
  }
  for (std::size_t i = 0; i < kSpeeds.size(); ++i) {
    drawing.text(
        {kGainsWidth + kSpeedPitch * static_cast<double>(i), kCurvesTop + kCurvesHeight + 20},
        kSpeeds.at(i), "t m");
  }
}

std::string curves(std::span<const ResourceGain> gains) {
  double least = 1;
  double most = 1.01;
  for (const ResourceGain& gain : gains) {
    for (const double speed_up : make_curve(gain)) {
      if (!std::isfinite(speed_up)) continue;
      least = std::min(least, speed_up);
      most = std::max(most, speed_up);
    }
  }
  const auto y_of = [&](double speed_up) {
    return kCurvesTop + kCurvesHeight * (1 - (std::min(speed_up, most) - least) / (most - least));
  };
  Drawing drawing(kGainsWidth + kSpeedPitch * (kSpeeds.size() - 1) + 40,
                  kCurvesTop + kCurvesHeight + 30,
                  "Speed-up of the run over the speed of a resource");
  drawing.text({kGainsWidth, 12}, "speed-up of the run");
  draw_grid(drawing, least, most, y_of);
  std::string key = "<p class=key>";
  for (std::size_t i = 0; i < gains.size(); ++i) {
    const std::array<double, 4> curve = make_curve(gains[i]);
    const std::string style = fmt::format("curve {}", kCurveColours.at(i));
    for (std::size_t at = 1; at < curve.size(); ++at) {
      const double x = kGainsWidth + kSpeedPitch * static_cast<double>(at);
      drawing.line({x - kSpeedPitch, y_of(curve.at(at - 1))}, {x, y_of(curve.at(at))}, style);
      drawing.dot({x, y_of(curve.at(at))}, 4, kCurveColours.at(i),
                  fmt::format("{} {}: {:.3f} times as fast", gains[i].resource, kSpeeds.at(at),
                              curve.at(at)));
    }
    key += fmt::format("<span><i class={}></i>{}</span>", kCurveColours.at(i),
                       figure::escaped(gains[i].resource));
  }
  return key + "</p>\n" + std::move(drawing).finish();
}

}  // namespace

std::string what_if(std::span<const ResourceGain> gains) {
  std::string rows =
      "<table><tr><th>resource<th>now<th class=n>x2<th class=n>x4<th class=n>infinite<th "
      "class=n>the only limit, us</tr>\n";
  for (const ResourceGain& gain : gains) {
    rows += fmt::format(
        "<tr><td>{}<td>{}<td class=n>{:.3f}<td class=n>{:.3f}<td class=n>{:.3f}<td "
        "class=n>{:.3f}</tr>\n",
        figure::escaped(gain.resource), figure::escaped(gain.value), gain.x2, gain.x4,
        gain.infinite, gain.alone_us);
  }
  return curves(gains.first(std::min(kCurveColours.size(), gains.size()))) + rows + "</table>\n";
}

}  // namespace kernbench::benches::page
