// One run of an operator on a device: its tensors, and the launches of a provider.
//
// Tokens are spread over all PEs of device 0, row by row; parameters are copied to each PE
// (ADR-0140).

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benches/operators/operator_case.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::operators {

// A kernel goes through its rows of tokens in blocks that fit into scratch; while it works on a
// block, the next block's loads are under way.

inline constexpr Bytes kF32Bytes = size_of(DType::f32);

// The tokens of a PE: rows [first, first + count) of the whole tensors, which are the first `count`
// rows of the PE's shards.
struct TokenShare {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Bytes scratch = 0;  // that the kernel may use
};

// The number of rows of a block, at least 1.  Each row takes `bytes_per_row` of scratch, including
// the loads ahead, beside `fixed` bytes that the kernel always holds.  A block gets at most half of
// the scratch, since the previous block may still use the rest.  Few rows are also divided into
// several blocks, so that loads and work overlap.
//
// Throws Error KB-O004 (exit code 21) if a row takes no bytes.
std::int64_t rows_per_block(const TokenShare& share, Bytes bytes_per_row, Bytes fixed = 0);

// Calls work(begin, count, load(begin, count)) for each block; rows are counted from the share's
// first.
// REQUIRES: rows >= 1
template <class Load, class Work>
void for_each_block(const TokenShare& share, std::int64_t rows, const Load& load,
                    const Work& work) {
  if (share.count < 1) return;
  const auto count_at = [&](std::int64_t begin) {
    return rows < share.count - begin ? rows : share.count - begin;
  };
  std::optional next(load(0, count_at(0)));
  for (std::int64_t begin = 0; begin < share.count; begin += rows) {
    auto loaded = *std::exchange(next, std::nullopt);
    const std::int64_t end = begin + count_at(begin);
    if (end < share.count) next.emplace(load(end, count_at(end)));
    work(begin, count_at(begin), std::move(loaded));
  }
}

// Makes the inputs and the outputs' gradients, by their numbers in the graph.  Without data in the
// context no elements are computed.  Gradients of outputs have no small rows.
std::vector<Tensor> make_inputs(RuntimeContext& torch, const Definition& definition);

class OperatorRun {
 public:
  // REQUIRES: `inputs` are those of make_inputs(); the arguments outlive this
  OperatorRun(RuntimeContext& torch, const Definition& definition,
              const std::vector<Tensor>& inputs);
  // A part of another run, `whole`, to which the work of this run's launches is added.
  OperatorRun(OperatorRun& whole, const Definition& definition, const std::vector<Tensor>& inputs);
  ~OperatorRun();
  OperatorRun(const OperatorRun&) = delete;
  OperatorRun& operator=(const OperatorRun&) = delete;

  const Definition& definition() const { return definition_; }
  const Problem& problem() const { return definition_.problem; }
  std::int64_t dim() const { return problem().size.dim; }

  // Hand-written kernels get their tensors by these.  Inputs whose gradients are the same value
  // share one tensor, as in PyTorch.  They throw Error KB-O002 for an unknown name, and for an
  // input without a gradient.
  const Tensor& input(std::string_view name) const;
  const Tensor& gradient(std::string_view input) const;  // backward must write it
  const Tensor& output(std::size_t index = 0) const { return outputs_[index]; }
  const Tensor& upstream(std::size_t index = 0) const;  // the input of backward
  // [tokens, columns] f32 that forward leaves to backward.  The first call makes it.
  const Tensor& saved(std::string_view name, std::int64_t columns = 1);

  // Makes backward write the gradient to `tensor`.  REQUIRES: the tensor has its shape, type and
  // placement
  void place_gradient(std::string_view input, const Tensor& tensor);

  // Runs kernel(tl, share, arguments...) on every PE that has tokens, and waits until all have
  // finished, or, if launches are queued, until that is issued (ADR-0190): compute() waits, so that
  // kernels may refer to the run.  A Tensor arrives as tl::Pointer to that PE's shard; anything
  // else as it is.
  template <class Kernel, class... Arguments>
  void launch(std::string_view name, const Kernel& kernel, const Arguments&... arguments) {
    std::vector<Tensor> uses;
    (runtime::collect_tensor(uses, arguments), ...);
    const auto launched = runtime::launched_tensors(uses);
    launch_on_pes(name, uses,
                  [code = std::decay_t<const Kernel>(kernel), launched, arguments...](
                      tl::Context& tl, const TokenShare& share) {
                    code(tl, share,
                         runtime::kernel_argument(arguments, tl.location(), *launched)...);
                  });
  }
  using Body = std::function<void(tl::Context&, const TokenShare&)>;
  void launch_on_pes(std::string_view name, std::vector<Tensor> uses, const Body& body);

  // Memory for intermediate values: [tokens, columns], each row on its token's PE, or a summand or
  // copy on each PE.
  Tensor make_tensor(const Node& node, std::string name) const;
  // A result, by its number in Definition::results().
  const Tensor& result(Direction direction, std::size_t index) const;
  // These tensors are numbered as in the graph: inputs, then gradients of outputs.
  const Tensor& graph_input(int number) const { return inputs_[static_cast<std::size_t>(number)]; }

  // The work of all launches so far, for which it waits.
  struct Work {
    int kernels = 0;
    Time in_kernels{0};  // from the first PE's start to the last one's end, of all kernels
    Bytes loaded = 0;
    Bytes stored = 0;
  };
  const Work& work();
  // The shares of the PEs that have tokens.
  const std::vector<TokenShare>& shares() const { return shares_; }
  const std::vector<sim::PeLocation>& pes() const { return pes_; }

 private:
  void make_gradients();
  std::size_t input_index(std::string_view name) const;
  void add_work(std::span<const runtime::KernelResult> of_kernel);

  struct Kept;

  RuntimeContext& torch_;
  const Definition& definition_;
  const std::vector<Tensor>& inputs_;
  std::vector<sim::PeLocation> pes_;
  std::vector<TokenShare> shares_;  // by PE
  std::vector<Tensor> outputs_;
  std::vector<Tensor> gradients_;  // by input; undefined if there is none
  OperatorRun* whole_ = nullptr;
  Work work_;
  std::unique_ptr<Kept> kept_;  // what forward leaves to backward, and what is queued
};

// Runs provider.forward() or backward(), and waits for the kernels that it has queued, which refer
// to its run.  Errors are extended by the provider, the direction and the size.
void compute(RuntimeContext& torch, Provider& provider, const ProviderInfo& info,
             const Definition& definition, Direction direction);

}  // namespace kernbench::benches::operators
