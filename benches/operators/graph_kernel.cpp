#include "benches/operators/graph_kernel.h"

#include <algorithm>
#include <optional>

#include "benches/operators/expert_kernels.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::operators {

namespace {

// The index of the last computation that needs a node's value, by node.
std::vector<std::size_t> last_uses(const Graph& graph, const KernelSpec& kernel) {
  std::vector<std::size_t> last(index_of(graph.size()), 0);
  for (std::size_t i = 0; i < kernel.computes.size(); ++i) {
    last[index_of(kernel.computes[i])] = i;
    for (const NodeId operand : graph[kernel.computes[i]].operand_ids()) {
      last[index_of(operand)] = i;
    }
  }
  return last;
}

// The type in which a node needs its operands.
DType operand_dtype(const Node& node, const Node& operand) {
  return node.op == Op::cast ? operand.dtype : node.dtype;
}

// The kernel on one PE.
class OnPe {
 public:
  OnPe(tl::Context& tl, const TokenShare& share, const Definition& definition,
       const KernelSpec& kernel, const Places& places, const ScratchNeeds& needs)
      : tl_(tl),
        share_(share),
        graph_(*definition.graph),
        kernel_(kernel),
        places_(places),
        needs_(needs),
        last_uses_(last_uses(graph_, kernel)),
        values_(places.size()),
        in_f32_(places.size()) {}

  void run();

 private:
  using Slot = std::optional<tl::Tensor>;
  struct At {
    tl::Pointer pointer;
    std::int64_t pitch = 0;
  };

  At at(const Place& place, std::int64_t row) const;
  tl::Tensor load(NodeId id, std::int64_t row, std::int64_t rows);
  void store(NodeId id, std::int64_t row);
  void go_through_blocks();
  void work_on_block();
  void drop_unused(std::size_t compute);
  tl::Tensor compute_result(NodeId id);
  tl::Tensor row_sum(const Node& node);
  tl::Tensor token_sum(NodeId id);
  tl::Tensor expert_sums(NodeId id);
  tl::Tensor make_one_hot(NodeId offsets, bool is_transposed);
  const tl::Tensor& operand(const Node& node, std::size_t index);
  bool is_block_value(NodeId id) const { return graph_[id].is_per_token(); }
  bool is_once_for_all(NodeId id) const {
    return !is_block_value(id) && !graph_[id].is_sum_of_tokens();
  }

  tl::Context& tl_;
  const TokenShare& share_;
  const Graph& graph_;
  const KernelSpec& kernel_;
  const Places& places_;
  const ScratchNeeds& needs_;
  const std::vector<std::size_t> last_uses_;
  std::vector<Slot> values_;  // by node; of the block, or if they have no rows of tokens, for good
  std::vector<Slot> in_f32_;  // the same values where operations want f32
  std::int64_t begin_ = 0;    // of the block
  std::int64_t rows_ = 0;
  Slot one_hot_;  // of the block
  Slot transposed_one_hot_;
};

OnPe::At OnPe::at(const Place& place, std::int64_t row) const {
  const tl::Pointer pointer = RuntimeContext::pointer_to(place.tensor, tl_.location());
  const std::int64_t pitch = place.tensor.shape()[1];
  return {pointer + (row * pitch + std::max(place.column, 0)), pitch};
}

tl::Tensor OnPe::load(NodeId id, std::int64_t row, std::int64_t rows) {
  const Place& place = places_[index_of(id)].front();
  const auto [pointer, pitch] = at(place, row);
  return tl_.load(pointer, {rows, graph_[id].extents.columns}, place.tensor.dtype(), pitch);
}

void OnPe::store(NodeId id, std::int64_t row) {
  for (const Place& place : places_[index_of(id)]) {
    const auto [pointer, pitch] = at(place, row);
    tl_.store(pointer, *values_[index_of(id)], pitch);
  }
}

void OnPe::run() {
  for (const NodeId id : kernel_.loads) {
    if (is_block_value(id)) continue;
    const Tensor& tensor = places_[index_of(id)].front().tensor;
    values_[index_of(id)].emplace(load(id, 0, tensor.shape()[0]));
  }
  for (const NodeId id : kernel_.computes) {
    if (is_once_for_all(id)) values_[index_of(id)].emplace(compute_result(id));
  }
  if (!std::ranges::all_of(kernel_.computes, [&](NodeId id) { return is_once_for_all(id); })) {
    go_through_blocks();
  }
  for (const NodeId id : kernel_.stores) {
    if (!is_block_value(id)) store(id, 0);
  }
}

void OnPe::go_through_blocks() {
  std::vector<NodeId> loads = kernel_.loads;
  std::erase_if(loads, [&](NodeId id) { return !is_block_value(id); });
  const auto load_all = [&](std::int64_t begin, std::int64_t rows) {
    std::vector<tl::Tensor> loaded;
    for (const NodeId id : loads) loaded.push_back(load(id, begin, rows));
    return loaded;
  };
  for_each_block(share_, rows_per_block(share_, needs_.per_row, needs_.fixed), load_all,
                 [&](std::int64_t begin, std::int64_t rows, std::vector<tl::Tensor> loaded) {
                   begin_ = begin;
                   rows_ = rows;
                   for (std::size_t i = 0; i < loads.size(); ++i) {
                     values_[index_of(loads[i])].emplace(std::move(loaded[i]));
                   }
                   work_on_block();
                 });
}

void OnPe::work_on_block() {
  one_hot_.reset();
  transposed_one_hot_.reset();
  for (std::size_t i = 0; i < kernel_.computes.size(); ++i) {
    const NodeId id = kernel_.computes[i];
    if (is_once_for_all(id)) continue;
    values_[index_of(id)].emplace(compute_result(id));
    if (is_block_value(id) && std::ranges::count(kernel_.stores, id) > 0) store(id, begin_);
    drop_unused(i);
  }
}

// Frees the scratch of values after their last use.
void OnPe::drop_unused(std::size_t compute) {
  const auto drop = [&](NodeId id) {
    if (!is_block_value(id) || last_uses_[index_of(id)] != compute) return;
    values_[index_of(id)].reset();
    in_f32_[index_of(id)].reset();
  };
  drop(kernel_.computes[compute]);
  for (const NodeId operand : graph_[kernel_.computes[compute]].operand_ids()) drop(operand);
}

const tl::Tensor& OnPe::operand(const Node& node, std::size_t index) {
  const NodeId id = node.operands[index];
  const tl::Tensor& value = *values_[index_of(id)];
  if (operand_dtype(node, graph_[id]) == value.dtype()) return value;
  Slot& in_f32 = in_f32_[index_of(id)];
  if (!in_f32) in_f32.emplace(tl_.cast(value, DType::f32));
  return *in_f32;
}

tl::Tensor OnPe::compute_result(NodeId id) {
  const Node& node = graph_[id];
  const auto x = [&]() -> const tl::Tensor& { return operand(node, 0); };
  const auto y = [&]() -> const tl::Tensor& { return operand(node, 1); };
  switch (node.op) {
    case Op::cast:
      return tl_.cast(x(), node.dtype);
    case Op::power:
      return node.number == 2 ? x() * x() : x() * x() * x();
    case Op::rsqrt:
      return tl_.rsqrt(x());
    case Op::sigmoid:
      return tl_.sigmoid(x());
    case Op::scale:
      return x() * node.number;
    case Op::shift:
      return x() + node.number;
    case Op::row_sum:
      return row_sum(node);
    case Op::token_sum:
      return token_sum(id);
    case Op::expert_sums:
      return expert_sums(id);
    case Op::per_token:
      if (!one_hot_) one_hot_.emplace(make_one_hot(node.operands[1], false));
      return tl_.dot(*one_hot_, x());
    case Op::add:
      return x() + y();
    case Op::subtract:
      return x() - y();
    case Op::multiply:
      return x() * y();
    case Op::input:
      break;
  }
  KB_CHECK(false, "an input is loaded, not computed");
}

tl::Tensor OnPe::row_sum(const Node& node) {
  const tl::Tensor sum = tl_.sum(operand(node, 0), 1, {.keep_dims = true});
  return node.number == 1 ? sum : sum * node.number;
}

tl::Tensor OnPe::token_sum(NodeId id) {
  const tl::Tensor of_block = tl_.sum(operand(graph_[id], 0), 0, {.keep_dims = true});
  const Slot& so_far = values_[index_of(id)];
  return so_far ? *so_far + of_block : of_block;
}

tl::Tensor OnPe::expert_sums(NodeId id) {
  const Node& node = graph_[id];
  if (!transposed_one_hot_) transposed_one_hot_.emplace(make_one_hot(node.operands[1], true));
  Slot& so_far = values_[index_of(id)];
  if (!so_far) return tl_.dot(*transposed_one_hot_, operand(node, 0));
  return tl_.dot(*transposed_one_hot_, operand(node, 0), std::move(*so_far));
}

// [rows, experts], or the other way round: 1 where the token is of the expert, else 0.
tl::Tensor OnPe::make_one_hot(NodeId offsets, bool is_transposed) {
  return one_hot(tl_, *values_[index_of(offsets)], share_.first + begin_, rows_, is_transposed);
}

// The scratch that a computation takes beside its result.
Bytes temporary_bytes(const Definition& definition, const Node& node) {
  constexpr Bytes kF32 = 4;
  const std::int64_t experts = expert_count(definition.inputs);
  switch (node.op) {
    case Op::power:
      return node.number == 3 ? node.extents.columns * size_of(node.dtype) : 0;
    case Op::row_sum:
    case Op::token_sum:
      return kF32;
    case Op::per_token:
    case Op::expert_sums:
      return 5 * experts * kF32;  // one_hot() and what it is made of
    default:
      return 0;
  }
}

}  // namespace

ScratchNeeds scratch_needs(const Definition& definition, const KernelSpec& kernel) {
  const Graph& graph = *definition.graph;
  const std::vector<std::size_t> last = last_uses(graph, kernel);
  std::vector<Bytes> held(index_of(graph.size()), 0);  // by node, of a row
  std::vector<bool> is_in_f32(held.size(), false);
  ScratchNeeds needs;
  Bytes now = 0;
  const auto hold = [&](NodeId id, DType dtype) {
    const Node& node = graph[id];
    const Bytes bytes = node.extents.columns * size_of(dtype);
    if (node.is_per_token()) {
      held[index_of(id)] += bytes;
      now += bytes;
    } else {  // a sum needs three: the old sum, the summand and the new sum
      const bool is_of_experts = node.extents.rows == Rows::experts;
      needs.fixed += 3 * bytes * (is_of_experts ? expert_count(definition.inputs) : 1);
    }
  };
  for (const NodeId id : kernel.loads) hold(id, graph[id].dtype);
  const Bytes loaded = now;
  Bytes most = now;
  for (std::size_t i = 0; i < kernel.computes.size(); ++i) {
    const Node& node = graph[kernel.computes[i]];
    for (const NodeId operand : node.operand_ids()) {
      if (operand_dtype(node, graph[operand]) == graph[operand].dtype) continue;
      if (!is_in_f32[index_of(operand)]) hold(operand, DType::f32);
      is_in_f32[index_of(operand)] = true;
    }
    hold(kernel.computes[i], node.dtype);
    most = std::max(most, now + temporary_bytes(definition, node));
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (last[index_of(id)] == i) now -= std::exchange(held[index_of(id)], 0);
    }
  }
  needs.per_row = most + loaded;
  return needs;
}

void launch_graph_kernel(OperatorRun& run, std::string_view name, const KernelSpec& kernel,
                         const Places& places) {
  std::vector<Tensor> uses;
  for (const auto* ids : {&kernel.loads, &kernel.stores}) {
    for (const NodeId id : *ids) {
      for (const Place& place : places[index_of(id)]) uses.push_back(place.tensor);
    }
  }
  const Definition& definition = run.definition();
  const ScratchNeeds needs = scratch_needs(definition, kernel);
  run.launch_on_pes(
      name, std::move(uses),
      [&definition, &kernel, places, needs](tl::Context& tl, const TokenShare& share) {
        OnPe(tl, share, definition, kernel, places, needs).run();
      });
}

}  // namespace kernbench::benches::operators
