// A collective on the tensors of the ranks of one group.

#pragma once

#include <optional>
#include <vector>

#include "benches/collectives/collective_values.h"
#include "benches/collectives/measured_collective.h"
#include "ccl/core/layout.h"
#include "runtime/distributed/collective.h"

namespace kernbench::benches::collectives {

class Exchange {
 public:
  // Makes the group and the tensors.  With the backend's process group, except for a shift.
  Exchange(RuntimeContext& torch, const MeasuredInput& input);

  // True if one driver calls for all: participants are PEs, or those of a shift.
  bool has_one_driver() const { return layout_.has_value(); }
  int caller_count() const { return static_cast<int>(tensors_.size()); }
  // The rank in the group; nullopt if the global rank is no member.
  std::optional<int> rank_of(int global_rank) const;

  // A rank calls these on its device: it brings its values, calls the collective as often as is
  // wanted, and counts its wrong elements.
  void bring(int rank) const { values_.bring(rank, tensors(rank).gives); }
  void call(int rank) const;
  std::int64_t count_wrong(int rank) const {
    return values_.count_wrong(rank, tensors(rank).takes);
  }

  // Fills in by what algorithm the last call ran, its lower bound and its time by the
  // model.
  void add_theory(Measurement& measured) const;

 private:
  // A rank's inputs and outputs: the rows of these tensors, in order, are its blocks.
  struct RankTensors {
    std::vector<Tensor> gives;
    std::vector<Tensor> takes;
  };

  bool is_shift() const { return input_.blocks.collective == MeasuredCollective::shift; }
  bool is_root(int rank) const { return rank == input_.blocks.root; }
  // True if it is one over all ranks, which ccl.yaml names an algorithm for.
  bool is_of_all() const;

  // Returns the tensors of a rank, or of its stand-in.
  const RankTensors& tensors(int rank) const;
  TensorOptions options() const;
  Tensor make(int rank, std::int64_t rows) const;
  std::vector<Tensor> make_list(int rank) const;
  RankTensors make_tensors(int rank) const;

  void send_and_receive(int rank, const RankTensors& own) const;
  void launch_shift() const;

  std::optional<std::string> last_algorithm() const;
  distributed::CollectiveCall make_call(int rank) const;
  std::vector<distributed::Block> list_blocks(const std::vector<Tensor>& tensors) const;
  void add_bounds(Measurement& measured) const;
  void add_model(Measurement& measured, const ccl::Algorithm& algorithm) const;

  RuntimeContext& torch_;
  const MeasuredInput& input_;
  const ccl::Config config_;
  const std::optional<ccl::Layout> layout_;  // if participants are PEs, or those of a shift
  const CollectiveValues values_;
  std::vector<int> members_;          // global ranks, by group rank; {0}: one driver for all
  distributed::ProcessGroup group_;   // the default group if no members were named
  std::vector<RankTensors> tensors_;  // by group rank; of ranks that are not simulated none
};

}  // namespace kernbench::benches::collectives
