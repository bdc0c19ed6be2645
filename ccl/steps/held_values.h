// Values that later steps use, and how many still will.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ccl/steps/step.h"
#include "runtime/tl/tiles.h"
#include "sim_engine/base/check.h"
#include "sim_engine/components/kernel_handles.h"

namespace kernbench::ccl {

class HeldValues {
 public:
  HeldValues(tl::Tiles& tiles, const StepList& list)
      : tiles_(tiles), held_(static_cast<std::size_t>(list.held_count)) {}

  void put(const Step& step, const sim::Tile& value) {
    if (step.uses > 0) held_[static_cast<std::size_t>(step.held)] = {value, step.uses};
  }

  sim::Tile take(std::span<const HeldElements> pieces) {
    if (pieces.size() == 1) return take(pieces.front());
    std::vector<sim::Tile> values;
    for (const HeldElements& piece : pieces) values.push_back(take(piece));
    return tiles_.cat(values);
  }

  void visit_tiles(tl::ScratchHolder::Visit visit) const {
    for (const Held& held : held_) {
      if (held.value) visit(held.value, "tl.wait");
    }
  }

 private:
  struct Held {
    sim::Tile value;
    int uses = 0;
  };

  sim::Tile take(const HeldElements& piece) {
    Held& held = held_[static_cast<std::size_t>(piece.value)];
    KB_CHECK(held.value, "value {} is not held", piece.value);
    sim::Tile value = tiles_.narrow(held.value, piece.begin, piece.count);
    if (--held.uses == 0) tiles_.let_go(held.value);
    return value;
  }

  tl::Tiles& tiles_;
  std::vector<Held> held_;
};

}  // namespace kernbench::ccl
