#include "benches/figure/point_labels.h"

#include <algorithm>
#include <array>
#include <numbers>
#include <optional>

#include "benches/figure/clip.h"
#include "benches/figure/style.h"
#include "benches/figure/text.h"

namespace kernbench::benches::figure {

namespace {

constexpr double kHeight = kNoteSize * 1.15;
constexpr double kMarker = 7;  // half the side of the square that a marker fills

// Distances of a label from its point; from the second on, a leader line is drawn.
constexpr std::array<double, 3> kDistances = {9, 26, 48};

// Places around a point, best first, as the side of the label: -1 left or above, 1 right or below,
// 0 centred.
constexpr std::array<std::array<int, 2>, 8> kSides = {
    {{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {1, -1}, {-1, -1}, {1, 1}, {-1, 1}}};

struct Place {
  Box box;
  Segment leader;    // from the edge of the marker to the box
  int distance = 0;  // index into kDistances
};

Place place_beside(Position point, double width, const std::array<int, 2>& side, int distance) {
  const bool is_corner = side[0] != 0 && side[1] != 0;
  const double away =
      kDistances[static_cast<std::size_t>(distance)] * (is_corner ? 0.7 : 1);  // about 1 / sqrt(2)
  const Position end{point.x + side[0] * away, point.y + side[1] * away};
  const double to_edge = kMarker / (is_corner ? std::numbers::sqrt2 : 1);
  const Position edge{point.x + side[0] * to_edge, point.y + side[1] * to_edge};
  const Position centre{end.x + side[0] * width / 2, end.y + side[1] * kHeight / 2};
  return {{centre.x - width / 2, centre.y - kHeight / 2, width, kHeight}, {edge, end}, distance};
}

bool is_inside(const Box& box, const Box& outer) {
  return box.x >= outer.x && box.right() <= outer.right() && box.y >= outer.y &&
         box.bottom() <= outer.bottom();
}

bool crosses(const Segment& line, const Box& box) {
  const std::array<Position, 2> ends = {line.from, line.to};
  return !clipped(ends, box).empty();
}

class Placer {
 public:
  Placer(const Obstacles& obstacles, const Box& plot)
      : labels_{obstacles.text}, leaders_(obstacles.leaders), lines_(obstacles.lines), plot_(plot) {
    for (const Position& point : obstacles.points) {
      markers_.push_back({point.x - kMarker, point.y - kMarker, 2 * kMarker, 2 * kMarker});
    }
  }

  // Finds the best free place and occupies it.
  std::optional<Place> place(Position point, double width) {
    std::optional<Place> best;
    int least = 0;
    for (int distance = 0; distance < std::ssize(kDistances); ++distance) {
      for (const auto& side : kSides) {
        const Place place = place_beside(point, width, side, distance);
        if (!is_free(place)) continue;
        const int cost = distance + 2 * crossed_lines(place.box);
        if (best && cost >= least) continue;
        best = place;
        least = cost;
      }
    }
    if (best) {
      labels_.push_back(best->box);
      if (best->distance > 0) leaders_.push_back(best->leader);
    }
    return best;
  }

 private:
  bool is_free(const Place& place) const {
    const auto is_covered = [&](const Box& other) { return other.overlaps(place.box); };
    const auto is_struck = [&](const Box& label) {
      return place.distance > 0 && crosses(place.leader, label);
    };
    const auto strikes = [&](const Segment& leader) { return crosses(leader, place.box); };
    return is_inside(place.box, plot_) && std::ranges::none_of(markers_, is_covered) &&
           std::ranges::none_of(labels_, is_covered) && std::ranges::none_of(labels_, is_struck) &&
           std::ranges::none_of(leaders_, strikes);
  }

  int crossed_lines(const Box& box) const {
    return static_cast<int>(
        std::ranges::count_if(lines_, [&](const Segment& line) { return crosses(line, box); }));
  }

  std::vector<Box> markers_;
  std::vector<Box> labels_;
  std::vector<Segment> leaders_;
  std::vector<Segment> lines_;
  Box plot_;
};

}  // namespace

void draw_point_labels(SvgWriter& svg, std::span<const PointLabel> labels,
                       const Obstacles& obstacles, const Box& plot) {
  Placer placer(obstacles, plot);
  for (const PointLabel& label : labels) {
    const auto place = placer.place(label.point, text_width(label.text, kNoteSize));
    if (!place) continue;
    if (place->distance > 0) {
      svg.line(place->leader.from, place->leader.to, {.colour = kLeaderColour});
    }
    svg.text({place->box.x, baseline(place->box.centre().y, kNoteSize)}, label.text,
             {.size = kNoteSize, .colour = kInk, .halo = true});
  }
}

}  // namespace kernbench::benches::figure
