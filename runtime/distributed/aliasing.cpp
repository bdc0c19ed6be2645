#include "runtime/distributed/aliasing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/distributed/misuse.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::distributed {

namespace {

// True if the blocks are parts of one tensor, one after the other: the common case, found without
// sorting.
bool follow_each_other(const std::vector<Block>& blocks) {
  return std::ranges::adjacent_find(blocks, [](const Block& a, const Block& b) {
           return a.tensor.storage() != b.tensor.storage() || b.first < a.first + a.count;
         }) == blocks.end();
}

// Returns the block's elements as a range of the memory that it lies in.
sim::ElementRange to_element_range(const Block& block) {
  return {block.tensor.storage()->first + block.first, block.count};
}

// Returns the positions in the list of two blocks that have elements in common; nullopt if no two
// have.
std::optional<std::pair<std::size_t, std::size_t>> overlapping(const std::vector<Block>& blocks) {
  if (follow_each_other(blocks)) return std::nullopt;
  struct Extent {
    std::size_t memory = 0;  // in the order in which they are met
    std::int64_t first = 0;
    std::size_t index = 0;  // of the block
    auto operator<=>(const Extent&) const = default;
  };
  std::map<const runtime::TensorMemory*, std::size_t> memories;  // never iterated
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].count == 0) continue;
    const auto memory =
        memories.try_emplace(blocks[i].tensor.storage()->memory.get(), memories.size()).first;
    extents.push_back({memory->second, to_element_range(blocks[i]).begin, i});
  }
  std::ranges::sort(extents);
  const auto overlap = [&](const Extent& a, const Extent& b) {
    return a.memory == b.memory && b.first < a.first + blocks[a.index].count;
  };
  const auto found = std::ranges::adjacent_find(extents, overlap);
  if (found == extents.end()) return std::nullopt;
  return std::minmax(found->index, std::next(found)->index);
}

}  // namespace

void check_are_apart(std::string_view function, std::string_view list,
                     const std::vector<Block>& outputs) {
  const auto pair = overlapping(outputs);
  if (!pair) return;
  const auto name = [&](std::size_t index) {
    return fmt::format("{}[{}] (tensor '{}')", list, index, outputs[index].tensor.name());
  };
  wrong_argument(
      fmt::format("{}: {} and {} lie in the same memory, so that what they would hold is "
                  "undefined; give each output memory of its own",
                  function, name(pair->first), name(pair->second)));
}

std::string_view output_list_name(CollectiveKind kind) {
  if (kind == CollectiveKind::all_gather) return "tensor_list";
  return kind == CollectiveKind::gather ? "gather_list" : "output_tensor_list";
}

namespace {

// True if an input shares elements with an output.
bool overwrites_inputs(const CollectiveCall& call) {
  if (call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::broadcast ||
      call.kind == CollectiveKind::reduce) {
    return false;
  }
  std::map<const runtime::TensorMemory*, std::vector<sim::ElementRange>> taken;  // never iterated
  for (const Block& block : call.takes) {
    std::vector<sim::ElementRange>& ranges = taken[block.tensor.storage()->memory.get()];
    const sim::ElementRange range = to_element_range(block);
    if (!ranges.empty() && ranges.back().end() == range.begin) {  // mostly the next part
      ranges.back().columns += range.columns;
    } else {
      ranges.push_back(range);
    }
  }
  return std::ranges::any_of(call.gives, [&](const Block& block) {
    const auto found = taken.find(block.tensor.storage()->memory.get());
    return found != taken.end() &&
           std::ranges::any_of(found->second, [&](const sim::ElementRange& range) {
             return overlap(range, to_element_range(block));
           });
  });
}

CollectiveCall on_snapshots(CollectiveCall call) {
  std::map<const Tensor::Storage*, Tensor> snapshots;  // never iterated
  for (Block& block : call.gives) {
    const auto [at, is_new] = snapshots.try_emplace(block.tensor.storage().get());
    if (is_new) at->second = runtime::take_snapshot(block.tensor);
    block.tensor = at->second;
  }
  return call;
}

}  // namespace

void run_on_snapshots_if_aliased(Communicator& communicator, const CollectiveCall& call) {
  if (overwrites_inputs(call)) {
    communicator.run(on_snapshots(call));
  } else {
    communicator.run(call);
  }
}

}  // namespace kernbench::distributed
