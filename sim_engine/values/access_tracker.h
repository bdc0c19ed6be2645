// Finds data races in the user's kernels: two accesses to the same elements that overlap in
// simulated time, at least one of them writing, by different kernels.  A PE's scheduler orders the
// accesses of one kernel, but not those of two kernels that run on the PE at the same time.

#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/topology/location.h"
#include "sim_engine/values/access_index.h"
#include "sim_engine/values/element_range.h"
#include "sim_engine/values/matrix_regions.h"
#include "sim_engine/values/memory_store.h"

namespace kernbench::sim {

enum class Access : std::uint8_t { read, write };

// Identifies who accesses.  `operation` is the user's name for it, e.g. "tl.load"; it must outlive
// the access.  `kernel` distinguishes the kernels that run on one PE.
struct AccessOrigin {
  std::string_view operation;
  PeLocation pe;
  std::uint64_t kernel = 0;

  bool is_same_kernel(const AccessOrigin& other) const {
    return pe == other.pe && kernel == other.kernel;
  }
};

// An access under way.
struct AccessId {
  std::uint32_t slot = 0xffffffff;
  std::uint32_t generation = 0;
};

// A read of several regions under way.
struct MatrixReadId {
  std::uint32_t slot = 0xffffffff;
  std::uint32_t generation = 0;
};

class AccessTracker {
 public:
  // An access to elements of the region starts now.  Throws DeviceError KB-M030, and does not
  // record the access, if it races with one under way; of several, the error names
  // the latest.
  AccessId begin(RegionId region, const ElementRange& elements, Access access,
                 const AccessOrigin& origin, Time now);

  // Columns of all rows of a matrix are read from now on, as begin() says for each of its regions
  // in their order.  Reads of one `matrix` cost the same, however many regions it lies in.
  MatrixReadId begin_read(const std::shared_ptr<const MatrixRegions>& matrix,
                          const MatrixRegions::Columns& columns, const AccessOrigin& origin,
                          Time now);

  // The access has ended.  Call it once per access.
  void end(AccessId id);
  void end(MatrixReadId id);

  // Drops all accesses, after a run that failed.  Their ids become invalid.
  void clear();

 private:
  struct UnderWay {
    RegionId region;
    Access access = Access::read;
    AccessOrigin origin;
    Time since{0};
    std::uint64_t number = 0;  // accesses that began before it
    std::uint32_t generation = 0;
  };
  // The accesses under way in a region.  The counts alone show for most new accesses that they race
  // with none of these.
  struct InRegion {
    AccessIndex::Set accesses;
    int count = 0;
    int writes = 0;
    bool is_shared = false;  // perhaps several kernels; else `sole` alone, if any
    AccessOrigin sole;
    std::vector<const MatrixRegions*> read;  // matrices with rows here that are being read
  };
  // A matrix that is being read.
  struct ReadMatrix {
    std::shared_ptr<const MatrixRegions> regions;
    int reads = 0;
    int writes = 0;  // under way in its regions
  };
  struct MatrixRead {
    UnderWay access;                        // `region` is none
    const MatrixRegions* matrix = nullptr;  // null: it has ended
    MatrixRegions::Columns columns;
  };
  // The latest access that another one races with.
  struct Rival {
    const UnderWay* access = nullptr;
    ElementRange elements;

    void consider(const UnderWay& other, const ElementRange& its_elements) {
      if (access == nullptr || access->number <= other.number) *this = {&other, its_elements};
    }
  };

  InRegion& in_region(RegionId region);
  ReadMatrix& open(const std::shared_ptr<const MatrixRegions>& matrix);
  void close(const MatrixRegions& matrix);
  void count_writes(InRegion& there, int added);
  void check_races(InRegion& there, const UnderWay& added, const ElementRange& elements);
  void find_rival(InRegion& there, const UnderWay& added, const ElementRange& elements,
                  Rival& rival);
  void find_reader(const InRegion& there, const UnderWay& added, const ElementRange& elements,
                   Rival& rival) const;
  [[noreturn]] static void report(const Rival& rival, const UnderWay& later,
                                  const ElementRange& elements);

  AccessIndex index_;
  std::vector<UnderWay> under_way_;  // by the index's id
  std::vector<InRegion> regions_;    // by the region's index
  std::unordered_map<const MatrixRegions*, ReadMatrix> read_;  // never iterated
  std::vector<MatrixRead> matrix_reads_;
  std::vector<std::uint32_t> ended_reads_;  // slots of matrix_reads_ that are free
  std::uint64_t next_number_ = 0;
};

}  // namespace kernbench::sim
