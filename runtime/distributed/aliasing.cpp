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
#include "sim_engine/values/element_leases.h"

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

// The blocks that were added, by memory.
class Taken {
 public:
  // The position of an earlier block that has elements in common with this one; nullopt if none
  // has.
  std::optional<std::size_t> find(const Block& block) const {
    std::optional<std::size_t> found;
    const auto memory = memories_.find(block.tensor.storage()->memory.get());
    if (memory == memories_.end()) return found;
    memory->second.visit_overlapping(to_element_range(block),
                                     [&](std::size_t position, const sim::ElementRange&) {
                                       found = std::min(position, found.value_or(position));
                                     });
    return found;
  }
  void add(const Block& block, std::size_t position) {
    memories_[block.tensor.storage()->memory.get()].add(to_element_range(block), position);
  }

 private:
  // Never iterated.
  std::map<const runtime::TensorMemory*, sim::ElementLeases<std::size_t>> memories_;
};

// Returns the positions in the list of two blocks that have elements in common; nullopt if no two
// have.
std::optional<std::pair<std::size_t, std::size_t>> overlapping(const std::vector<Block>& blocks) {
  if (follow_each_other(blocks)) return std::nullopt;
  Taken taken;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (const auto earlier = taken.find(blocks[i])) return std::pair(*earlier, i);
    taken.add(blocks[i], i);
  }
  return std::nullopt;
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
  if (traits_of(call.kind).is_in_place()) return false;
  Taken taken;
  std::vector<Block> whole;  // blocks that lie one behind the other are one
  for (const Block& block : call.takes) {
    const bool continues = !whole.empty() &&
                           whole.back().tensor.storage() == block.tensor.storage() &&
                           whole.back().first + whole.back().count == block.first;
    if (continues) {
      whole.back().count += block.count;
    } else {
      whole.push_back(block);
    }
  }
  for (const Block& block : whole) taken.add(block, 0);
  return std::ranges::any_of(call.gives,
                             [&](const Block& block) { return taken.find(block).has_value(); });
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
