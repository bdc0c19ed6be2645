#include "benches/figure/cut_mark.h"

#include <algorithm>
#include <cmath>

#include "benches/figure/style.h"
#include "benches/figure/text.h"

namespace kernbench::benches::figure {

namespace {

constexpr double kTooth = 10;  // its width
constexpr double kAmplitude = 4;
constexpr double kInset = 8;  // of a zig-zag line from the edge of the gap

// A zig-zag line from left to right about `y`.
std::vector<Position> zig_zag(Stretch x, double y) {
  std::vector<Position> points;
  const int count = std::max(2, static_cast<int>(std::ceil((x.to - x.from) / (kTooth / 2))));
  for (int i = 0; i <= count; ++i) {
    points.push_back(
        {x.from + (x.to - x.from) * i / count, y + (i % 2 == 0 ? kAmplitude : -kAmplitude)});
  }
  return points;
}

void draw_mark(SvgWriter& svg, const Box& gap, Stretch x) {
  const std::vector<Position> upper = zig_zag(x, gap.y + kInset);
  const std::vector<Position> lower = zig_zag(x, gap.bottom() - kInset);
  std::vector<Position> between = upper;
  between.insert(between.end(), lower.rbegin(), lower.rend());
  svg.polygon(between, kPaper, {});
  svg.polyline(upper, kAxisStroke);
  svg.polyline(lower, kAxisStroke);
}

// Sorts the stretches and joins those that nearly touch.
std::vector<Stretch> joined(std::vector<Stretch> stretches) {
  std::ranges::sort(stretches, {}, &Stretch::from);
  std::vector<Stretch> result;
  for (const Stretch& stretch : stretches) {
    if (!result.empty() && stretch.from <= result.back().to + 2) {
      result.back().to = std::max(result.back().to, stretch.to);
    } else {
      result.push_back(stretch);
    }
  }
  return result;
}

// The widest part of the gap that nothing crosses.
Stretch widest_free(const Box& gap, const std::vector<Stretch>& marks) {
  Stretch widest{gap.x, gap.x};
  double from = gap.x;
  const auto offer = [&](double to) {
    if (to - from > widest.to - widest.from) widest = {from, to};
  };
  for (const Stretch& mark : marks) {
    offer(mark.from);
    from = std::max(from, mark.to);
  }
  offer(gap.right());
  return widest;
}

}  // namespace

Box draw_cut_marks(SvgWriter& svg, const Box& gap, std::vector<Stretch> crossings,
                   std::vector<Stretch> taken, const std::string& label) {
  svg.begin_group(label);
  const std::vector<Stretch> marks = joined(std::move(crossings));
  for (const Stretch& mark : marks) draw_mark(svg, gap, mark);
  taken.insert(taken.end(), marks.begin(), marks.end());
  const Stretch free = widest_free(gap, joined(std::move(taken)));
  const double width = text_width(label, kNoteSize) + 16;
  const double middle = (free.from + free.to) / 2;
  const bool fits = width <= free.to - free.from;
  if (fits) {
    svg.text({middle, baseline(gap.centre().y, kNoteSize)}, label,
             {.size = kNoteSize, .colour = kFaintInk, .anchor = Anchor::middle, .halo = true});
  }
  svg.end_group();
  return fits ? Box{middle - width / 2, gap.y, width, gap.h} : Box{};
}

}  // namespace kernbench::benches::figure
