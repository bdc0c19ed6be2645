// An inline SVG drawing whose colours are the page's: classes of its style sheet.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "benches/figure/svg.h"

namespace kernbench::benches::page {

using figure::Box;
using figure::Position;

class Drawing {
 public:
  // `name` is what it shows, for readers who cannot see it.
  Drawing(double width, double height, std::string_view name);

  // `tip` is shown when the pointer rests on it.
  void box(const Box& box, std::string_view style, std::string_view tip = {});
  void line(Position from, Position to, std::string_view style, std::string_view tip = {});
  // A line whose colour is that of a share, 0 to 1, on the heat scale.
  void heat_line(Position from, Position to, double share, std::string_view tip);
  // Stretches of a horizontal line with the colours of shares; `tip` is that of all.
  struct Heat {
    double from = 0;
    double to = 0;
    double share = 0;
  };
  void heat_row(double y, std::span<const Heat> row, std::string_view tip);
  // An area between two lines, both given from left to right.
  void area(std::span<const Position> top, std::span<const Position> bottom, std::string_view style,
            std::string_view tip);
  void dot(Position at, double radius, std::string_view style, std::string_view tip = {});
  // `at` is on the baseline.
  void text(Position at, std::string_view text, std::string_view style = "t");

  std::string finish() &&;

 private:
  void end(std::string_view tip, std::string_view element);

  std::string svg_;
};

// The step of the heat scale for a share of 0 to 1: 0 to 9.
int heat_step(double share);

// Both stand beside each other where the page is wide enough.
std::string beside(const std::string& left, const std::string& right);

// "<h2>title</h2>" and what follows it.
std::string section(std::string_view title, std::string_view note, const std::string& content);

}  // namespace kernbench::benches::page
