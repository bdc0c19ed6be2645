#include "sim_engine/components/hbm_access.h"

#include <algorithm>

namespace kernbench::sim {

namespace {

// Rows lie in ascending order: a page that two of them share is translated once.
std::int64_t pages_of(const HbmPart& part, Bytes page) {
  const ElementRange& elements = part.elements;
  if (elements.count() == 0) return 0;
  const Bytes size = size_of(part.buffer.dtype);
  const auto page_of = [&](std::int64_t element) {
    return (part.buffer.address + element * size) / page;
  };
  // Rows that begin at most a page apart leave out no page.
  if (elements.rows == 1 || elements.pitch * size <= page) {
    return page_of(elements.end() - 1) - page_of(elements.begin) + 1;
  }
  std::int64_t pages = 0;
  Bytes translated = -1;  // the last page
  for (std::int64_t i = 0; i < elements.rows; ++i) {
    const ElementRange row = elements.row(i);
    const Bytes first = (part.buffer.address + row.begin * size) / page;
    const Bytes last = (part.buffer.address + row.end() * size - 1) / page;
    pages += last - std::max(first - 1, translated);
    translated = last;
  }
  return pages;
}

}  // namespace

std::int64_t count_pages(const work::HbmAccess& access, Bytes page) {
  std::int64_t pages = pages_of(access, page);
  for (const HbmPart& part : access.further) pages += pages_of(part, page);
  return access.chosen_rows == 0 ? pages : std::min(pages, access.chosen_rows);
}

std::uint64_t count_writes(const MemoryStore& memory, const work::HbmAccess& access) {
  std::uint64_t writes = memory.write_count(access.buffer.region);
  for (const HbmPart& part : access.further) writes += memory.write_count(part.buffer.region);
  return writes;
}

Value load_value(MemoryStore& memory, const work::HbmAccess& access) {
  const auto value_of = [&](const HbmPart& part) {
    return memory.load(part.buffer.region, part.elements);
  };
  if (access.further.empty()) return value_of(access);
  std::vector<Value> values{value_of(access)};
  for (const HbmPart& part : access.further) values.push_back(value_of(part));
  return memory.concat(values);
}

void store_value(MemoryStore& memory, const work::HbmAccess& access, const Value& value) {
  if (access.further.empty()) return memory.store(access.buffer.region, access.elements, value);
  std::int64_t offset = 0;
  const auto store_part = [&](const HbmPart& part) {
    const std::int64_t count = part.elements.count();
    memory.store(part.buffer.region, part.elements, memory.slice(value, offset, count));
    offset += count;
  };
  store_part(access);
  for (const HbmPart& part : access.further) store_part(part);
}

}  // namespace kernbench::sim
