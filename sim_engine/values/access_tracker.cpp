#include "sim_engine/values/access_tracker.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::sim {

// A race needs a write and two kernels.
void AccessTracker::check_races(InRegion& there, const UnderWay& added,
                                const ElementRange& elements) {
  Rival rival;
  find_rival(there, added, elements, rival);
  if (added.access == Access::write) find_reader(there, added, elements, rival);
  if (rival.access != nullptr) report(rival, added, elements);
}

void AccessTracker::find_rival(InRegion& there, const UnderWay& added, const ElementRange& elements,
                               Rival& rival) {
  const bool adds_write = added.access == Access::write;
  if (there.count == 0 || (there.writes == 0 && !adds_write)) return;
  if (!there.is_shared && there.sole.is_same_kernel(added.origin)) return;
  index_.visit_overlapping(there.accesses, added.region, elements,
                           [&](AccessIndex::Id id, const ElementRange& its_elements) {
                             const UnderWay& other = under_way_[id];
                             if (other.access == Access::read && !adds_write) return;
                             if (other.origin.is_same_kernel(added.origin)) return;
                             rival.consider(other, its_elements);
                           });
}

// Who writes to a matrix that others read is rare, so all reads are looked at.
void AccessTracker::find_reader(const InRegion& there, const UnderWay& added,
                                const ElementRange& elements, Rival& rival) const {
  for (const MatrixRegions* matrix : there.read) {
    for (const MatrixRegions::Part& part : matrix->parts()) {
      if (part.region != added.region) continue;
      for (const MatrixRead& read : matrix_reads_) {
        if (read.matrix != matrix || read.access.origin.is_same_kernel(added.origin)) continue;
        const ElementRange its_elements = MatrixRegions::elements(part, read.columns);
        if (overlap(its_elements, elements)) rival.consider(read.access, its_elements);
      }
    }
  }
}

void AccessTracker::report(const Rival& rival, const UnderWay& later,
                           const ElementRange& elements) {
  const auto line = [](const UnderWay& access, const ElementRange& range) {
    return fmt::format("  {} by {} {} elements {} since {}", access.origin.operation,
                       to_string(access.origin.pe),
                       access.access == Access::write ? "writes" : "reads", to_string(range),
                       kernbench::to_string(access.since));
  };
  const auto& [earlier_access, its_elements] = rival;
  const UnderWay& earlier = *earlier_access;
  const bool is_one_pe = earlier.origin.pe == later.origin.pe;
  throw DeviceError("KB-M030",
                    "data race on elements {} of region {}: {} and {} are unordered\n{}\n{}\n  "
                    "nothing orders the two; {}",
                    to_string(common_stretch(its_elements, elements)), later.region.index,
                    earlier.origin.operation, later.origin.operation, line(earlier, its_elements),
                    line(later, elements),
                    is_one_pe ? "a kernel and a collective run on that PE side by side; wait for "
                                "the Work before the launch"
                              : "a tl.send after the first and a tl.recv before the second would");
}

AccessTracker::InRegion& AccessTracker::in_region(RegionId region) {
  if (region.index >= regions_.size()) regions_.resize(region.index + 1);
  return regions_[region.index];
}

AccessId AccessTracker::begin(RegionId region, const ElementRange& elements, Access access,
                              const AccessOrigin& origin, Time now) {
  InRegion& there = in_region(region);
  UnderWay added{region, access, origin, now, next_number_};
  check_races(there, added, elements);
  ++next_number_;
  if (there.count++ == 0) {
    there.sole = origin;
    there.is_shared = false;
  } else if (!there.sole.is_same_kernel(origin)) {
    there.is_shared = true;
  }
  if (access == Access::write) count_writes(there, 1);
  const AccessIndex::Id id = index_.add(there.accesses, region, elements);
  if (id >= under_way_.size()) under_way_.resize(id + 1);
  added.generation = under_way_[id].generation;
  under_way_[id] = added;
  return {id, added.generation};
}

void AccessTracker::end(AccessId id) {
  KB_CHECK(id.slot < under_way_.size() && under_way_[id.slot].generation == id.generation,
           "an access that has ended");
  UnderWay& ended = under_way_[id.slot];
  InRegion& there = regions_[ended.region.index];
  --there.count;
  if (ended.access == Access::write) count_writes(there, -1);
  index_.remove(there.accesses, id.slot);
  ++ended.generation;
}

void AccessTracker::count_writes(InRegion& there, int added) {
  there.writes += added;
  for (const MatrixRegions* matrix : there.read) read_.at(matrix).writes += added;
}

MatrixReadId AccessTracker::begin_read(const std::shared_ptr<const MatrixRegions>& matrix,
                                       const MatrixRegions::Columns& columns,
                                       const AccessOrigin& origin, Time now) {
  ReadMatrix& read = open(matrix);
  UnderWay added{{}, Access::read, origin, now, next_number_};
  try {
    for (const MatrixRegions::Part& part : matrix->parts()) {
      if (read.writes == 0) break;
      added.region = part.region;
      check_races(in_region(part.region), added, MatrixRegions::elements(part, columns));
    }
  } catch (const DeviceError&) {  // the read is not recorded
    if (read.reads == 0) close(*matrix);
    throw;
  }
  ++read.reads;
  ++next_number_;
  if (ended_reads_.empty()) {
    ended_reads_.push_back(static_cast<std::uint32_t>(matrix_reads_.size()));
    matrix_reads_.emplace_back();
  }
  const std::uint32_t slot = ended_reads_.back();
  ended_reads_.pop_back();
  MatrixRead& began = matrix_reads_[slot];
  added.generation = began.access.generation;
  began = {added, matrix.get(), columns};
  return {slot, added.generation};
}

void AccessTracker::end(MatrixReadId id) {
  KB_CHECK(
      id.slot < matrix_reads_.size() && matrix_reads_[id.slot].access.generation == id.generation,
      "a read that has ended");
  MatrixRead& ended = matrix_reads_[id.slot];
  const MatrixRegions& matrix = *ended.matrix;
  ended.matrix = nullptr;
  ++ended.access.generation;
  ended_reads_.push_back(id.slot);
  if (--read_.at(&matrix).reads == 0) close(matrix);
}

// From the first reader on, the regions know the matrix, and it knows how many write to them.
AccessTracker::ReadMatrix& AccessTracker::open(const std::shared_ptr<const MatrixRegions>& matrix) {
  ReadMatrix& read = read_[matrix.get()];
  if (read.regions != nullptr) return read;
  read.regions = matrix;
  for (const MatrixRegions::Part& part : matrix->parts()) {
    InRegion& there = in_region(part.region);
    there.read.push_back(matrix.get());
    read.writes += there.writes;
  }
  return read;
}

void AccessTracker::close(const MatrixRegions& matrix) {
  for (const MatrixRegions::Part& part : matrix.parts()) {
    std::vector<const MatrixRegions*>& read = in_region(part.region).read;
    read.erase(std::ranges::find(read, &matrix));
  }
  read_.erase(&matrix);
}

void AccessTracker::clear() {
  index_ = {};
  regions_.clear();
  read_.clear();
  for (UnderWay& access : under_way_) ++access.generation;
  for (std::uint32_t slot = 0; slot < matrix_reads_.size(); ++slot) {
    if (matrix_reads_[slot].matrix == nullptr) continue;
    matrix_reads_[slot].matrix = nullptr;
    ++matrix_reads_[slot].access.generation;
    ended_reads_.push_back(slot);
  }
}

}  // namespace kernbench::sim
