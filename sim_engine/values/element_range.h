// The elements of a region that an access touches: rows of equal length, equally far apart.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace kernbench::sim {

// Elements [begin + i pitch, begin + i pitch + columns) for i < rows: a rectangle of a matrix that
// is stored row by row, or, with one row, a stretch.
// REQUIRES: columns >= 0, rows >= 0; with several rows, pitch >= columns
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t columns = 0;
  std::int64_t rows = 1;
  std::int64_t pitch = 0;

  std::int64_t count() const { return rows * columns; }
  // Behind the last element.
  std::int64_t end() const {
    if (rows == 1) return begin + columns;
    return count() == 0 ? begin : begin + (rows - 1) * pitch + columns;
  }
  bool is_contiguous() const { return rows <= 1 || pitch == columns; }
  // True if all elements of `part` are among these.  Of ranges with gaps that are not rectangles of
  // one matrix it answers false.
  bool contains(const ElementRange& part) const {
    if (is_contiguous()) return begin <= part.begin && part.end() <= end();
    if (part.begin < begin || (part.rows > 1 && part.pitch != pitch)) return false;
    const std::int64_t first_row = (part.begin - begin) / pitch;
    const std::int64_t first_column = (part.begin - begin) % pitch;
    return first_column + part.columns <= columns && first_row + part.rows <= rows;
  }
  ElementRange row(std::int64_t index) const { return {begin + index * pitch, columns}; }
  // The same elements, as one row if they follow each other.
  ElementRange simplified() const { return is_contiguous() ? ElementRange{begin, count()} : *this; }

  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// The first contiguous stretch in both ranges; it has no elements if they do not overlap.
ElementRange common_stretch(const ElementRange& a, const ElementRange& b);

// The same for rectangles of one matrix, with pitch > 0: row i of `a` meets row j of `b` if
// offset - a.columns < (i - j) pitch < offset + b.columns.
inline bool rectangles_overlap(const ElementRange& a, const ElementRange& b) {
  const std::int64_t offset = b.begin - a.begin;
  const std::int64_t above = offset - a.columns;
  const std::int64_t floor = above / a.pitch - (above % a.pitch < 0 ? 1 : 0);
  const std::int64_t shift = std::max(floor + 1, 1 - b.rows);
  return shift < a.rows && shift * a.pitch < offset + b.columns;
}

inline bool overlap(const ElementRange& a, const ElementRange& b) {
  if (a.begin >= b.end() || b.begin >= a.end()) return false;
  if (a.count() == 0 || b.count() == 0) return false;
  if (a.rows == 1 && b.rows == 1) return true;
  if (a.pitch == b.pitch) return rectangles_overlap(a, b);
  return common_stretch(a, b).columns > 0;
}

// "0..63"; "0..63 and 3 more rows, 256 apart".
std::string to_string(const ElementRange& range);

}  // namespace kernbench::sim
