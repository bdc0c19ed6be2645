#include "benches/figure/margin_labels.h"

#include <catch2/catch.hpp>

#include "benches/figure/chart_frame.h"
#include "benches/figure/clip.h"
#include "benches/figure/point_labels.h"
#include "test/benches/figure/svg_reader.h"

namespace kernbench::benches::figure::margin_labels_test {

namespace {

using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("labels that do not collide stay where they belong", "[figure][margin_labels]") {
  CHECK(moved_apart(Numbers{10, 50, 90}, Numbers{20, 20, 20}, 0, 100) == Numbers{10, 50, 90});
  CHECK(moved_apart(Numbers{}, Numbers{}, 0, 100).empty());
}

TEST_CASE("labels that collide move apart by as little as possible", "[figure][margin_labels]") {
  CHECK(moved_apart(Numbers{50, 50}, Numbers{20, 20}, 0, 100) == Numbers{40, 60});
  CHECK(moved_apart(Numbers{48, 50, 52}, Numbers{20, 20, 20}, 0, 100) == Numbers{30, 50, 70});
  // The first two push the third.
  CHECK(moved_apart(Numbers{50, 50, 65}, Numbers{20, 20, 20}, 0, 200) == Numbers{35, 55, 75});
}

TEST_CASE("labels stay between the edges while there is room", "[figure][margin_labels]") {
  CHECK(moved_apart(Numbers{0, 0}, Numbers{20, 20}, 0, 100) == Numbers{10, 30});
  CHECK(moved_apart(Numbers{99, 100}, Numbers{20, 20}, 0, 100) == Numbers{70, 90});
  CHECK(moved_apart(Numbers{5, 5}, Numbers{20, 20}, 0, 30) == Numbers{10, 30});
}

TEST_CASE("the first and the last label of an axis are kept", "[figure][chart_frame]") {
  using Fits = std::vector<bool>;
  CHECK(labels_that_fit({}, {}, 5) == Fits{});
  CHECK(labels_that_fit({10}, {8}, 5) == Fits{true});
  CHECK(labels_that_fit({0, 30, 60}, {20, 20, 20}, 10) == Fits{true, true, true});
  CHECK(labels_that_fit({0, 29, 60}, {20, 20, 20}, 10) == Fits{true, false, true});
  CHECK(labels_that_fit({0, 31, 60}, {20, 20, 20}, 10) == Fits{true, false, true});
  CHECK(labels_that_fit({0, 5, 60}, {20, 0, 20}, 10) == Fits{true, false, true});
  CHECK(labels_that_fit({0, 10}, {20, 20}, 10) == Fits{true, false});
}

TEST_CASE("of a line there is what lies in the box", "[figure][clip]") {
  const auto pieces_of = [](std::vector<Position> points) {
    std::vector<std::vector<double>> pieces;
    for (const auto& piece : clipped(points, {0, 0, 10, 10})) {
      pieces.emplace_back();
      for (const Position& point : piece) {
        pieces.back().push_back(point.x);
        pieces.back().push_back(point.y);
      }
    }
    return pieces;
  };
  using Pieces = std::vector<std::vector<double>>;
  CHECK(pieces_of({{1, 2}, {3, 4}, {5, 5}}) == Pieces{{1, 2, 3, 4, 5, 5}});
  CHECK(pieces_of({{-5, 5}, {15, 5}}) == Pieces{{0, 5, 10, 5}});
  CHECK(pieces_of({{5, 15}, {5, -5}}) == Pieces{{5, 10, 5, 0}});
  CHECK(pieces_of({{5, 5}, {15, 5}, {15, 8}, {5, 8}}) == Pieces{{5, 5, 10, 5}, {10, 8, 5, 8}});
  CHECK(pieces_of({{-1, 5}, {-2, 7}}).empty());
  CHECK(pieces_of({{-5, 6}, {6, 17}}).empty());
  CHECK(pieces_of({{5, 5}}).empty());
  CHECK(pieces_of({}).empty());
}

TEST_CASE("a point's label is beside it, where it covers nothing", "[figure][point_labels]") {
  const Box plot{0, 0, 200, 100};
  const auto texts_of = [&](const std::vector<PointLabel>& labels,
                            const std::vector<Position>& points,
                            const std::vector<Segment>& lines) {
    SvgWriter svg(200, 100, "", "");
    draw_point_labels(svg, labels, {points, lines}, plot);
    return test::named(test::read_svg(std::move(svg).finish()), "text");
  };
  const std::vector<PointLabel> label = {{{50, 50}, "A"}};
  const auto free = texts_of(label, {{50, 50}}, {});
  REQUIRE(free.size() == 1);
  CHECK(free[0].number("x") == 59);  // to the right
  // Another point on the right: to the left.
  CHECK(texts_of(label, {{50, 50}, {65, 50}}, {})[0].number("x") < 50);
  // A line through both sides: above.
  const auto above = texts_of(label, {{50, 50}}, {{{0, 50}, {200, 50}}});
  CHECK(above[0].number("x") < 50);
  CHECK(above[0].number("y") < 45);
  // Nowhere at all: none.
  std::vector<Position> crowd;
  for (double x = 0; x <= 200; x += 10) {
    for (double y = 0; y <= 100; y += 10) crowd.push_back({x, y});
  }
  CHECK(texts_of(label, crowd, {}).empty());
}

}  // namespace kernbench::benches::figure::margin_labels_test
