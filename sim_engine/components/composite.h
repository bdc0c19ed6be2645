// A composite command under way: loads, products, an epilogue and stores of tiles, which
// PE_SCHEDULER hands to the units by itself.
//
// Models:      tiles of the result go row by row, each through all of k.  A product's operands are
//              loaded when the product two before it has ended (double buffering), so that the next
//              load overlaps the array; products follow each other on PE_GEMM without a gap once
//              their operands are there.  The epilogue is one pass of PE_MATH with the cycles of
//              its operations; then the tile is stored while the array is at the next one.  Each of
//              these commands costs a `dispatch` and, on the DMA, its `setup`, like any other.
//              Blocks of a tile that lie in one slice of HBM are one transfer, whose descriptor
//              lists them.
// Races:       for other kernels a composite is one access to each of its matrices, from its
//              dispatch to its end, since they cannot know which tiles are done.
// Not modeled: reuse of a tile that is still in scratch.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim_engine/components/command.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/pe_scheduler.h"

namespace kernbench::sim {

class Composite final : private CommandIssuer {
 public:
  // `scratch` holds the working set until the composite ends.  `command` is finished then.  Its
  // accesses are those of `kernel`, and so are the waits of its parts.
  Composite(PeScheduler& scheduler, Command& command, CompositePlan plan, Tile scratch,
            std::uint64_t kernel, Waits& waits);
  Composite(const Composite&) = delete;
  Composite& operator=(const Composite&) = delete;

  const CompositePlan& plan() const { return plan_; }
  Command& command() { return command_; }
  // For MemoryOrder: an id for each of for_each_memory_use(); none before they are noted.
  std::vector<AccessIndex::Id>& noted() { return noted_; }

  // Bytes of shared tiles that HBM gave because of this composite.
  Bytes shared_from_hbm() const { return shared_from_hbm_; }

  // The command has been dispatched.
  void start();

 private:
  // The product of one tile of a and one tile of b.
  struct Step {
    std::int64_t row;
    std::int64_t column;
    std::int64_t depth;  // where in k
    GemmSize size;
    bool begins_result;
    bool ends_result;
  };

  void open_accesses();
  void close_accesses();
  Step step_at(std::int64_t index) const;
  void issue_step(const Step& step);
  void issue_end_of_result(const Step& step, Tile sum);
  Tile load_tile(const OperandAt& operand, std::int64_t row, std::int64_t column, std::int64_t rows,
                 std::int64_t columns);
  Value concat_parts() const;
  Tile load(const work::Load& access, std::int64_t count, const Tile& not_before);
  Tile multiply(const Step& step, const Tile& a, const Tile& b);
  Tile run_epilogue(const Step& step, const Tile& sum);
  Tile store(const OperandAt::Rows& rows, const Tile& tile);
  Command& make_command();
  void completed(const Command& part) override;
  Waits& waits() override { return waits_; }

  PeScheduler& scheduler_;
  Command& command_;
  const CompositePlan plan_;
  const std::uint64_t kernel_;
  Waits& waits_;
  const GemmSize counts_;  // of tiles
  Tile scratch_;
  std::vector<AccessId> accesses_;          // under way
  std::vector<MatrixReadId> matrix_reads_;  // likewise
  std::vector<AccessIndex::Id> noted_;
  const std::int64_t step_count_;
  std::int64_t next_step_ = 0;
  std::int64_t results_issued_ = 0;
  std::int64_t stores_issued_ = 0;
  std::int64_t stores_done_ = 0;
  Bytes shared_from_hbm_ = 0;
  Tile sum_;                    // of the result at hand, so far
  Tile bias_;                   // of the result at hand
  Tile last_departed_;          // of the latest product: products reach the array in order
  std::array<Tile, 2> stored_;  // of the two latest results: ready when their scratch is free
  std::vector<Tile> parts_;     // loads of the tile at hand; between two tiles it is empty
};

}  // namespace kernbench::sim
