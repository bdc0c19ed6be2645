// Lists what fills a PE's scratch memory, for the error that reports that it is full.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "runtime/tl/tiles.h"
#include "runtime/tl/tl.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

namespace {

// The values that one operation made with one shape and type.
struct Holder {
  std::string what;  // "tl.load [64, 64] f16"
  Bytes bytes = 0;   // of each value
  std::int64_t count = 0;

  Bytes total() const { return bytes * count; }
};

constexpr std::size_t kMostHolders = 5;

// Returns the bytes of a tile's memory that are not in `counted` yet, and adds them to it.
Bytes uncounted_bytes(const sim::Tile& tile, std::set<const sim::TileNode*>& counted) {
  if (tile->parts.empty()) return counted.insert(tile.operator->()).second ? tile->charged : 0;
  Bytes bytes = 0;
  for (const sim::Tile& part : tile->parts) bytes += uncounted_bytes(part, counted);
  return bytes;
}

void add(std::vector<Holder>& holders, const std::string& what, Bytes bytes) {
  const auto same = std::ranges::find_if(
      holders, [&](const Holder& holder) { return holder.what == what && holder.bytes == bytes; });
  if (same == holders.end()) {
    holders.push_back({what, bytes, 1});
  } else {
    ++same->count;
  }
}

std::string format_line(const Holder& holder) {
  if (holder.count == 1) return fmt::format("\n  {} B: {}", holder.bytes, holder.what);
  return fmt::format("\n  {} B: {} times {}, {} B each", holder.total(), holder.count, holder.what,
                     holder.bytes);
}

}  // namespace

Bytes Context::held_scratch() const {
  std::set<const sim::TileNode*> counted;  // asked, never listed
  Bytes bytes = run_.receive_scratch();
  for (const Tensor* value = handles_.oldest_; value != nullptr; value = value->next_) {
    bytes += uncounted_bytes(value->tile_, counted);
  }
  if (holder_ != nullptr) {
    holder_->visit_tiles(
        [&](const sim::Tile& tile, std::string_view) { bytes += uncounted_bytes(tile, counted); });
  }
  return bytes;
}

// Describes the largest holders, one line each.
std::string Context::scratch_holders() {
  std::set<const sim::TileNode*> counted;  // asked, never listed
  std::vector<Holder> holders;
  Bytes held = 0;
  for (const Tensor* value = handles_.oldest_; value != nullptr; value = value->next_) {
    const Bytes bytes = uncounted_bytes(value->tile_, counted);
    if (bytes == 0) continue;
    add(holders, fmt::format("{} {}", value->made_by_, describe(*value)), bytes);
    held += bytes;
  }
  if (holder_ != nullptr) {
    holder_->visit_tiles([&](const sim::Tile& tile, std::string_view made_by) {
      const Bytes bytes = uncounted_bytes(tile, counted);
      if (bytes == 0) return;
      add(holders, fmt::format("{} [{}] {}", made_by, tile->element_count, name_of(tile->dtype)),
          bytes);
      held += bytes;
    });
  }
  const Bytes others = run_.pe().scratch_in_use() - held;
  const bool is_alone = run_.pe().kernel_count() <= 1;
  if (others > 0) {
    holders.push_back(
        {is_alone ? "receives that are posted" : "posted receives, and other kernels", others, 1});
  }
  std::ranges::stable_sort(holders, std::ranges::greater{}, &Holder::total);
  std::string text;
  for (std::size_t i = 0; i < std::min(holders.size(), kMostHolders); ++i) {
    text += format_line(holders[i]);
  }
  if (holders.size() > kMostHolders) {
    Bytes rest = 0;
    for (std::size_t i = kMostHolders; i < holders.size(); ++i) rest += holders[i].total();
    text += fmt::format("\n  {} B: others", rest);
  }
  return text;
}

}  // namespace kernbench::tl
