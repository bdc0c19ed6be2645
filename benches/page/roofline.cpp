#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "benches/page/charts.h"
#include "benches/page/drawing.h"
#include "sim_engine/components/routing.h"

namespace kernbench::benches::page {

namespace {

struct Point {
  std::string name;
  double intensity = 0;  // operations per byte
  double rate = 0;       // operations per second and PE
  Time total{0};
};

std::vector<Point> collect_points(const runtime::Profile& profile) {
  std::vector<Point> points;
  for (const runtime::OperationRow& row : profile.operations) {
    if (row.operations == 0 || row.bytes == 0 || row.total == Time{0}) continue;
    const auto operations = static_cast<double>(row.operations);
    const double seconds = to_ns(row.total) / 1e9;
    points.push_back({row.name, operations / static_cast<double>(row.bytes),
                      operations / seconds / row.pe_count, row.total});
  }
  return points;
}

// The rates of one PE per second: operations of its array, and bytes of its share of the HBM.
struct Roof {
  double operations = 0;
  double bytes = 0;
};

Roof compute_roof(const Topology& topology) {
  const GemmSpec& array = topology.pe.gemm;
  Roof roof;
  if (!array.clock.is_unlimited()) {
    roof.operations =
        2.0 * array.rows * array.columns * static_cast<double>(array.clock.per_second);
  }
  const Bandwidth slice = sim::Routing::hbm_slice(topology).bandwidth;
  if (!slice.is_unlimited()) {
    const int slices = sim::Routing::hbm_slice_count(topology);
    roof.bytes = static_cast<double>(slice.per_second) * slices / topology.pe_count();
  }
  return roof;
}

// A logarithmic axis over whole powers of ten.
class Axis {
 public:
  Axis(double least, double most, double from, double to)
      : first_(static_cast<int>(std::floor(std::log10(least)))),
        last_(std::max(static_cast<int>(std::ceil(std::log10(most))), first_ + 1)),
        from_(from),
        to_(to) {}

  int first() const { return first_; }
  int last() const { return last_; }
  double least() const { return std::pow(10, first_); }
  double most() const { return std::pow(10, last_); }
  double at(double value) const {
    const double share = (std::log10(value) - first_) / (last_ - first_);
    return from_ + std::clamp(share, 0.0, 1.0) * (to_ - from_);
  }

 private:
  int first_;
  int last_;
  double from_;
  double to_;
};

void draw_grid(Drawing& drawing, const Axis& x, const Axis& y) {
  for (int power = x.first(); power <= x.last(); ++power) {
    const double at = x.at(std::pow(10, power));
    drawing.line({at, y.at(y.least())}, {at, y.at(y.most())}, "g");
    drawing.text({at, y.at(y.least()) + 18}, fmt::format("{:g}", std::pow(10, power)), "t m");
  }
  for (int power = y.first(); power <= y.last(); ++power) {
    const double at = y.at(std::pow(10, power));
    drawing.line({x.at(x.least()), at}, {x.at(x.most()), at}, "g");
    drawing.text({x.at(x.least()) - 8, at + 4}, fmt::format("1e{}", power), "t e");
  }
}

}  // namespace

std::string roofline(const runtime::Profile& profile, const Topology& topology) {
  const std::vector<Point> points = collect_points(profile);
  const Roof roof = compute_roof(topology);
  if (points.empty() || roof.operations == 0 || roof.bytes == 0) return "";
  const auto [low, high] = std::ranges::minmax(points, {}, &Point::intensity);
  const double ridge = roof.operations / roof.bytes;
  const double slowest = std::ranges::min(points, {}, &Point::rate).rate;
  const Axis x(std::min(low.intensity, ridge / 10), std::max(high.intensity, ridge * 10), 70, 680);
  const Axis y(std::min(slowest, roof.operations / 100), roof.operations, 330, 20);
  Drawing drawing(700, 380, "Operations per second over operations per byte");
  draw_grid(drawing, x, y);
  const double left = std::max(x.least(), y.least() / roof.bytes);
  drawing.line({x.at(left), y.at(left * roof.bytes)}, {x.at(ridge), y.at(roof.operations)}, "roof",
               "what the PE's share of the HBM allows");
  drawing.line({x.at(ridge), y.at(roof.operations)}, {x.at(x.most()), y.at(roof.operations)},
               "roof", "what the PE's array allows");
  for (const Point& point : points) {
    drawing.dot({x.at(point.intensity), y.at(point.rate)}, 5, "kernel",
                fmt::format("{}: {:.3g} operations per byte, {:.3g} per second, {:.3f} us",
                            point.name, point.intensity, point.rate, to_ns(point.total) / 1e3));
  }
  drawing.text({375, 372}, "operations per byte of HBM", "t m");
  drawing.text({70, 12}, "operations per second and PE");
  return std::move(drawing).finish();
}

}  // namespace kernbench::benches::page
