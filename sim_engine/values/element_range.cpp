#include "sim_engine/values/element_range.h"

#include <fmt/format.h>

namespace kernbench::sim {

namespace {

// The first common stretch of `stretch`, a single row, and `rows`.
ElementRange common_stretch_in_rows(const ElementRange& stretch, const ElementRange& rows) {
  // Find the first row that ends behind the stretch's begin.
  const std::int64_t before = stretch.begin - rows.begin - rows.columns;
  const std::int64_t index = before < 0 ? 0 : rows.rows == 1 ? 1 : before / rows.pitch + 1;
  if (index >= rows.rows) return {};
  const ElementRange row = rows.row(index);
  const std::int64_t begin = std::max(stretch.begin, row.begin);
  return {begin, std::max<std::int64_t>(0, std::min(stretch.end(), row.end()) - begin)};
}

}  // namespace

ElementRange common_stretch(const ElementRange& a, const ElementRange& b) {
  if (a.count() == 0 || b.count() == 0) return {};
  const ElementRange& few = a.rows <= b.rows ? a : b;
  const ElementRange& many = a.rows <= b.rows ? b : a;
  for (std::int64_t i = 0; i < few.rows; ++i) {
    const ElementRange common = common_stretch_in_rows(few.row(i), many);
    if (common.columns > 0) return common;
  }
  return {};
}

std::string to_string(const ElementRange& range) {
  const std::string first = fmt::format("{}..{}", range.begin, range.begin + range.columns - 1);
  if (range.rows <= 1) return first;
  return fmt::format("{} and {} more row{}, {} apart", first, range.rows - 1,
                     range.rows == 2 ? "" : "s", range.pitch);
}

}  // namespace kernbench::sim
