#include "sim_engine/components/hbm_access.h"

#include <algorithm>
#include <vector>

namespace kernbench::sim {

namespace {

// Rows lie in ascending order: a page that two of them share is translated once.
std::int64_t pages_of(const DeviceBuffer& buffer, const ElementRange& elements, Bytes page) {
  if (elements.count() == 0) return 0;
  const Bytes size = size_of(buffer.dtype);
  const auto page_of = [&](std::int64_t element) {
    return (buffer.address + element * size) / page;
  };
  // Rows that begin at most a page apart leave out no page.
  if (elements.rows == 1 || elements.pitch * size <= page) {
    return page_of(elements.end() - 1) - page_of(elements.begin) + 1;
  }
  std::int64_t pages = 0;
  Bytes translated = -1;  // the last page
  for (std::int64_t i = 0; i < elements.rows; ++i) {
    const ElementRange row = elements.row(i);
    const Bytes first = (buffer.address + row.begin * size) / page;
    const Bytes last = (buffer.address + row.end() * size - 1) / page;
    pages += last - std::max(first - 1, translated);
    translated = last;
  }
  return pages;
}

// Calls use(buffer, elements) for what moves of each buffer.
template <class Use>
void for_each_part(const work::HbmAccess& access, const Use& use) {
  if (access.operand == nullptr) return use(access.buffer, access.elements);
  access.operand->for_each_part(access.rows,
                                [&](const MatrixAt& matrix, const ElementRange& elements) {
                                  use(matrix.buffer, elements.simplified());
                                });
}

}  // namespace

std::int64_t count_pages(const work::HbmAccess& access, Bytes page) {
  std::int64_t pages = 0;
  for_each_part(access, [&](const DeviceBuffer& buffer, const ElementRange& elements) {
    pages += pages_of(buffer, elements, page);
  });
  return access.chosen_rows == 0 ? pages : std::min(pages, access.chosen_rows);
}

std::uint64_t count_writes(const MemoryStore& memory, const work::HbmAccess& access) {
  std::uint64_t writes = 0;
  for_each_part(access, [&](const DeviceBuffer& buffer, const ElementRange&) {
    writes += memory.write_count(buffer.region);
  });
  return writes;
}

Value load_value(MemoryStore& memory, const work::HbmAccess& access) {
  if (access.operand == nullptr) return memory.load(access.buffer.region, access.elements);
  std::vector<Value> values;
  for_each_part(access, [&](const DeviceBuffer& buffer, const ElementRange& elements) {
    values.push_back(memory.load(buffer.region, elements));
  });
  return memory.concat(values);
}

void store_value(MemoryStore& memory, const work::HbmAccess& access, const Value& value) {
  if (access.operand == nullptr) {
    return memory.store(access.buffer.region, access.elements, value);
  }
  std::int64_t offset = 0;
  for_each_part(access, [&](const DeviceBuffer& buffer, const ElementRange& elements) {
    const std::int64_t count = elements.count();
    memory.store(buffer.region, elements, memory.slice(value, offset, count));
    offset += count;
  });
}

}  // namespace kernbench::sim
