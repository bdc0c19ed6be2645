// An access of one command to HBM: elements of a buffer, or rows of a composite's matrix, which lie
// in several buffers of one slice.

#pragma once

#include <cstdint>

#include "sim_engine/components/composite_plan.h"
#include "sim_engine/values/access_tracker.h"
#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"
#include "sim_engine/values/memory_store.h"

namespace kernbench::sim {

// Elements in HBM.
struct HbmPart {
  DeviceBuffer buffer;
  ElementRange elements;
};

namespace work {

struct HbmAccess : HbmPart {
  std::uint64_t kernel = 0;                    // 0: a part of a composite, which has begun its own
  AccessId id{};                               // while it is under way
  AccessIndex::Id noted = AccessIndex::kNone;  // by MemoryOrder
  // If the rows that a part of a composite moves lie in several blocks: their matrix, which is the
  // composite's and outlives the access; else null.  `elements` are those in the first block.
  const OperandAt* operand = nullptr;
  OperandAt::Rows rows = {};
  // If it is not 0, the access moves so many rows among the elements, which values choose.
  std::int64_t chosen_rows = 0;
};

}  // namespace work

// The pages that an access translates; of chosen rows one each, at most.
std::int64_t count_pages(const work::HbmAccess& access, Bytes page);

// All stores to the access's regions so far.
std::uint64_t count_writes(const MemoryStore& memory, const work::HbmAccess& access);

// The present value of the access's elements.
Value load_value(MemoryStore& memory, const work::HbmAccess& access);
void store_value(MemoryStore& memory, const work::HbmAccess& access, const Value& value);

}  // namespace kernbench::sim
