// The regions that the rows of a matrix lie in.
//
// PEs of a launch that read the same rows share one list of these.  AccessTracker notes a read of
// all of them as one access then, and not as one for each region.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"

namespace kernbench::sim {

class MatrixRegions {
 public:
  // Rows in one region.
  struct Part {
    RegionId region;
    std::int64_t begin = 0;  // the element at which column 0 of the first row begins
    std::int64_t rows = 0;
    std::int64_t pitch = 0;  // from a row's element to the next row's
  };
  // Columns [first, first + count) of all rows.
  struct Columns {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  explicit MatrixRegions(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part& part : parts_) sorted_.push_back(number_of(part.region));
    std::ranges::sort(sorted_);
  }

  const std::vector<Part>& parts() const { return parts_; }

  // The elements that these columns have in a part.
  static ElementRange elements(const Part& part, const Columns& columns) {
    return ElementRange{part.begin + columns.first, columns.count, part.rows, part.pitch}
        .simplified();
  }

  // True if some rows lie in the region.
  bool contains(RegionId region) const {
    return std::ranges::binary_search(sorted_, number_of(region));
  }

 private:
  static std::uint64_t number_of(RegionId region) {
    return std::uint64_t{region.index} << 32 | region.generation;
  }

  std::vector<Part> parts_;
  std::vector<std::uint64_t> sorted_;  // numbers of the regions
};

}  // namespace kernbench::sim
