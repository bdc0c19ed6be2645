// torch.utils.checkpoint beyond checkpoint() itself (runtime/autograd/autograd.h): which results
// are kept, and which layers, so that activations fit into so many bytes (ADR-0130).

#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "sim_engine/base/units.h"

namespace kernbench::nn::utils {

// Says what becomes of an operator's result; PREFER_SAVE is as MUST_SAVE here, and PREFER_RECOMPUTE
// as MUST_RECOMPUTE, since nothing else decides (torch.utils.checkpoint.CheckpointPolicy).
enum class CheckpointPolicy : std::uint8_t {
  MUST_SAVE,
  PREFER_SAVE,
  MUST_RECOMPUTE,
  PREFER_RECOMPUTE
};

// Asked for each call of an operator whose result can be kept: "matmul", "addmm" (a product with a
// bias, as of a Linear), "varlen_attn", "grouped_mm".  It must say the same the second time.
using SelectiveCheckpointPolicy = std::function<CheckpointPolicy(std::string_view op)>;

struct CheckpointContexts {
  SelectiveCheckpointPolicy policy = nullptr;  // null: nothing but the inputs is kept
};

// Returns what checkpoint() takes (torch.utils.checkpoint.create_selective_checkpoint_contexts):
//   checkpoint(block, {x}, create_selective_checkpoint_contexts({"matmul", "addmm"}));
// keeps the results of these operators, and computes all others again.  Throws CollectiveError
// KB-A033 for an operator whose result cannot be kept.
CheckpointContexts create_selective_checkpoint_contexts(SelectiveCheckpointPolicy policy);
CheckpointContexts create_selective_checkpoint_contexts(
    std::initializer_list<std::string_view> ops_to_save);

// As checkpoint(function, inputs), but keeps the results that the contexts' policy says. backward()
// throws CollectiveError
//   KB-A005  such a result was written since
//   KB-A031  it was asked for the gradients of some inputs alone: the function's parameters get
//            theirs whatever is asked for
//   KB-A034  the function, called again, calls other operators whose results are kept, or with
//            inputs of other shapes, types or placements
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
                  const std::vector<Tensor>& inputs, CheckpointContexts contexts);

// Calls one function after the other, in `segments` parts of equal numbers of them, of which the
// last has the rest.  Each part but the last is checkpointed: the last one's backward comes first,
// and needs its activations anyway (torch.utils.checkpoint.checkpoint_sequential).  Throws KB-A033
// for a number of segments that is not within 1 and the number of functions.
Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor& x)>>& functions,
                             std::int64_t segments, const Tensor& input);

// The bytes that a layer keeps for its backward.
struct LayerActivations {
  Bytes all = 0;    // its input and what it computes
  Bytes input = 0;  // what a checkpoint keeps of it
};

// Calls a layer once with a tensor like `input`, whose elements are not used, and counts what it
// keeps: in blocks of HBM, over all PEs of the device.  It takes simulated time, and no random
// numbers.  Throws for an input that is not on a device what an operator throws, and what the
// layer throws.
LayerActivations measure_activations(const std::function<Tensor(const Tensor& x)>& layer,
                                     const Tensor& input);

// Returns which of `layers` equal layers, one behind the other, may keep their activations if all
// of them together are to take at most so many bytes at any time of a step: the last
//   min(layers, 1 + floor((budget - all - input (layers - 1)) / (all - input))),
// true for each that keeps them.  The last one is free, since its backward has all of them anyway,
// and what it keeps is gone before another layer is computed again.  No other choice keeps more
// layers, and the last are the best ones, since they are gone first.
// Budgets hold for blocking launches: queued ones keep the tensors that they use until they end,
// and so a layer's views longer than its backward needs them.
// Throws KB-A033, with the bytes that are missing, if not even checkpoints of all but the last fit;
// likewise for less than one layer, for one that keeps less than its input, and negative bytes.
std::vector<bool> choose_kept_layers(std::int64_t layers, const LayerActivations& of_each,
                                     Bytes budget);

}  // namespace kernbench::nn::utils
