// Boxes on a grid or around a ring, and the links between neighbours.

#pragma once

#include <string_view>
#include <vector>

#include "benches/figure/svg.h"

namespace kernbench::benches::figure {

struct GridStyle {
  std::string_view noun;  // "SIP": a box is named "SIP 0" where that fits, else "0"
  std::string_view fill;
  std::string_view border;
  Stroke link;
};

// One dimension of a grid: a place for each index; if there are more than 8, only for the first
// three and the last two, with dots between them.
class Places {
 public:
  static constexpr int kDots = -1;

  // Centred between `from` and `from + length`, with a gap before and after if they have `margins`.
  Places(int size, bool margins, double from, double length, double widest);

  std::size_t count() const { return indices_.size(); }
  int index(std::size_t place) const { return indices_[place]; }  // or kDots
  double begin(std::size_t place) const {
    return origin_ + static_cast<double>(place) * (width_ + gap_);
  }
  double centre(std::size_t place) const { return begin(place) + width_ / 2; }
  double end(std::size_t place) const { return begin(place) + width_; }
  double width() const { return width_; }
  double gap() const { return gap_; }
  std::size_t last() const { return indices_.size() - 1; }

 private:
  std::vector<int> indices_;
  double width_ = 0;
  double gap_ = 0;
  double origin_ = 0;
};

// w x h boxes, numbered row by row; the first has a thick border.
class GridDrawing {
 public:
  // `wraps`: the two ends of each row and column of more than two are neighbours too.
  // REQUIRES: w > 0, h > 0
  GridDrawing(int w, int h, bool wraps, const Box& area);

  void draw(SvgWriter& svg, const GridStyle& style) const;

  // The boxes along one side.
  std::vector<Box> column(std::size_t place) const;
  std::vector<Box> row(std::size_t place) const;
  std::size_t last_column() const { return x_.last(); }
  std::size_t last_row() const { return y_.last(); }

 private:
  Box box_at(std::size_t column, std::size_t row) const;
  void draw_row(SvgWriter& svg, std::size_t row, const Stroke& stroke) const;
  void draw_column(SvgWriter& svg, std::size_t column, const Stroke& stroke) const;

  int w_;
  int count_;
  bool rows_wrap_;
  bool columns_wrap_;
  Places x_;
  Places y_;
};

// Boxes around an ellipse, clockwise from the top, neighbours joined by its arcs.
// REQUIRES: 2 < count <= kMostInRing
inline constexpr int kMostInRing = 12;
void draw_ring(SvgWriter& svg, int count, const Box& area, const GridStyle& style);

// The same boxes, each joined to each.
void draw_full_mesh(SvgWriter& svg, int count, const Box& area, const GridStyle& style);
// The same boxes, each joined to one in the middle.
void draw_star(SvgWriter& svg, int count, const Box& area, const GridStyle& style,
               std::string_view hub);

// Draws one box with its name, in the longest form for which all of `count` equal boxes have room.
// The first box has a thick border.
void draw_unit(SvgWriter& svg, const Box& box, int index, int count, const GridStyle& style);

}  // namespace kernbench::benches::figure
