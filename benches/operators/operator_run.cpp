#include "benches/operators/operator_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "benches/bench/settings.h"
#include "benches/operators/input_elements.h"
#include "runtime/launch/kernel_launch.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::operators {

namespace {

constexpr DPPolicy kByTokens{.cube = Shard::row_wise, .pe = Shard::row_wise};
constexpr DPPolicy kCopied{.cube = Shard::replicate, .pe = Shard::replicate};
constexpr DPPolicy kSummands{.cube = Shard::partial, .pe = Shard::partial};

std::int64_t row_count(const Definition& definition, Rows rows) {
  switch (rows) {
    case Rows::tokens:
      return definition.problem.size.tokens();
    case Rows::experts:
      return expert_count(definition.inputs);
    case Rows::one:
      break;
  }
  return 1;
}

// Fills shard by shard, so that the host never holds all elements.
void fill_tokens(const Tensor& tensor, const ElementSource& source, bool has_small_rows) {
  Tensor target = tensor;
  for (std::size_t i = 0; i < tensor.shards().size(); ++i) {
    const ShardInfo& shard = tensor.shards()[i];
    if (shard.shape.numel() == 0) continue;
    const std::int64_t begin = shard.offset[0];
    const std::int64_t count = shard.shape[0];
    target.copy_shard_(
        i, RuntimeContext::tensor(has_small_rows ? source.rows_with_small_ones(begin, count)
                                                 : source.rows(begin, count),
                                  shard.shape));
  }
}

void fill(const Tensor& tensor, const InputSpec& spec, const ElementSource& source) {
  if (spec.extents.rows == Rows::tokens) {
    return fill_tokens(tensor, source, spec.has_small_rows && spec.mean == 0);
  }
  Tensor target = tensor;
  target.copy_(RuntimeContext::tensor(
      spec.elements.empty() ? source.rows(0, tensor.shape()[0]) : spec.elements, tensor.shape()));
}

Time makespan(std::span<const runtime::KernelResult> results) {
  const auto first = std::ranges::min_element(results, {}, &runtime::KernelResult::start);
  const auto last = std::ranges::max_element(results, {}, &runtime::KernelResult::end);
  return last->end - first->start;
}

}  // namespace

std::vector<Tensor> make_inputs(RuntimeContext& torch, const Definition& definition) {
  std::vector<InputSpec> specs = definition.inputs;
  for (std::size_t i = 0; i < definition.upstream.size(); ++i) {
    const Node& node = definition.node(definition.upstream[i]);
    specs.push_back({.name = fmt::format("dy{}", i),
                     .extents = node.extents,
                     .dtype = node.dtype,
                     .has_small_rows = false});
  }
  std::vector<Tensor> tensors;
  for (const InputSpec& spec : specs) {
    const bool has_tokens = spec.extents.rows == Rows::tokens;
    const Shape shape{row_count(definition, spec.extents.rows), spec.extents.columns};
    tensors.push_back(torch.empty(
        shape, {.dtype = spec.dtype, .dp = has_tokens ? kByTokens : kCopied, .name = spec.name}));
    if (!torch.options().data) continue;
    fill(tensors.back(), spec,
         ElementSource(spec, definition.problem.seed, static_cast<int>(tensors.size())));
  }
  return tensors;
}

struct OperatorRun::Kept {
  std::map<std::string, Tensor, std::less<>> saved;
  std::set<std::uint64_t> queued;  // operations whose work is not added yet
};

OperatorRun::OperatorRun(RuntimeContext& torch, const Definition& definition,
                         const std::vector<Tensor>& inputs)
    : torch_(torch), definition_(definition), inputs_(inputs), kept_(std::make_unique<Kept>()) {
  const Bytes scratch = torch.topology().pe.tcm.capacity;
  for (const ShardInfo& shard :
       inputs[static_cast<std::size_t>(definition.node(definition.upstream.front()).input)]
           .shards()) {
    if (shard.shape.numel() == 0) continue;
    pes_.push_back({shard.sip, shard.cube, shard.pe});
    shares_.push_back({shard.offset[0], shard.shape[0], scratch});
  }
  for (const NodeId id : definition.outputs) {
    outputs_.push_back(make_tensor(definition.node(id), fmt::format("y{}", outputs_.size())));
  }
  make_gradients();
}

OperatorRun::OperatorRun(OperatorRun& whole, const Definition& definition,
                         const std::vector<Tensor>& inputs)
    : OperatorRun(whole.torch_, definition, inputs) {
  whole_ = &whole;
}

OperatorRun::~OperatorRun() = default;

// Gradients that are the same value share one tensor.
void OperatorRun::make_gradients() {
  gradients_.resize(definition_.inputs.size());
  std::map<NodeId, Tensor> whole;
  for (const auto& [input, column, id] : definition_.gradients) {
    const Node& node = definition_.node(id);
    const InputSpec& spec = definition_.inputs[static_cast<std::size_t>(input)];
    Tensor& gradient = gradients_[static_cast<std::size_t>(input)];
    if (node.op == Op::input) {
      gradient = graph_input(node.input);
    } else if (column >= 0) {
      const Node of_all{.op = node.op, .extents = spec.extents};
      if (!gradient.defined()) gradient = make_tensor(of_all, "d" + spec.name);
    } else {
      const auto [place, is_new] = whole.try_emplace(id);
      if (is_new) place->second = make_tensor(node, "d" + spec.name);
      gradient = place->second;
    }
  }
}

Tensor OperatorRun::make_tensor(const Node& node, std::string name) const {
  const Shape shape{row_count(definition_, node.extents.rows), node.extents.columns};
  const TensorOptions options{.dtype = node.dtype,
                              .dp = node.is_per_token()       ? kByTokens
                                    : node.is_sum_of_tokens() ? kSummands
                                                              : kCopied,
                              .name = std::move(name)};
  // PEs without tokens write no summand, so their summands must begin as 0.
  return node.is_sum_of_tokens() ? torch_.zeros(shape, options) : torch_.empty(shape, options);
}

std::size_t OperatorRun::input_index(std::string_view name) const {
  const auto& inputs = definition_.inputs;
  const auto found = std::ranges::find(inputs, name, &InputSpec::name);
  if (found != inputs.end()) return static_cast<std::size_t>(found - inputs.begin());
  std::vector<std::string_view> names;
  for (const InputSpec& spec : inputs) names.push_back(spec.name);
  throw Error("KB-O002", ExitCode::collective_misuse, "operator case: no input is named {}{}",
              in_quotes(name), suggestion(name, names));
}

const Tensor& OperatorRun::input(std::string_view name) const {
  return inputs_[input_index(name)];
}

const Tensor& OperatorRun::gradient(std::string_view input) const {
  const Tensor& gradient = gradients_[input_index(input)];
  if (gradient.defined()) return gradient;
  throw Error("KB-O002", ExitCode::collective_misuse,
              "operator case: input {} has no gradient: it wants none, or no output depends on it",
              in_quotes(input));
}

void OperatorRun::place_gradient(std::string_view input, const Tensor& tensor) {
  gradients_[input_index(input)] = tensor;
}

const Tensor& OperatorRun::upstream(std::size_t index) const {
  return graph_input(definition_.node(definition_.upstream[index]).input);
}

const Tensor& OperatorRun::saved(std::string_view name, std::int64_t columns) {
  auto found = kept_->saved.find(name);
  if (found == kept_->saved.end()) {
    const Node node{.extents = {Rows::tokens, columns}};
    found = kept_->saved.emplace(name, make_tensor(node, std::string(name))).first;
  }
  return found->second;
}

const Tensor& OperatorRun::result(Direction direction, std::size_t index) const {
  if (direction == Direction::forward) return outputs_[index];
  return gradients_[static_cast<std::size_t>(definition_.gradients[index].input)];
}

void OperatorRun::launch_on_pes(std::string_view name, std::vector<Tensor> uses, const Body& body) {
  runtime::Simulation& simulation = simulation_of(torch_);
  runtime::issue(simulation);
  runtime::LaunchRequest request{.name = std::string(name),
                                 .pes = pes_,
                                 .body =
                                     [this, body](tl::Context& tl) {
                                       const auto pe = static_cast<std::size_t>(tl.program_id());
                                       body(tl, shares_[pe]);
                                     },
                                 .uses = std::move(uses),
                                 .operation = simulation.next_operation()};
  simulation.begin(request.operation);
  OperatorRun& whole = whole_ == nullptr ? *this : *whole_;
  ++whole.work_.kernels;
  if (simulation.queues_launches()) {
    whole.kept_->queued.insert(request.operation);
    request.what = fmt::format("kernel '{}'", name);
    runtime::launch(simulation, std::move(request), runtime::When::queued);
    return;
  }
  runtime::launch(simulation, std::move(request));
  whole.add_work(torch_.engine().last_results());
}

void OperatorRun::add_work(std::span<const runtime::KernelResult> of_kernel) {
  work_.in_kernels += makespan(of_kernel);
  for (const runtime::KernelResult& result : of_kernel) {
    work_.loaded += result.loaded;
    work_.stored += result.stored;
  }
}

const OperatorRun::Work& OperatorRun::work() {
  std::map<std::uint64_t, std::vector<runtime::KernelResult>> results;
  for (const runtime::KernelResult& result : torch_.engine().results()) {
    if (kept_->queued.contains(result.operation)) results[result.operation].push_back(result);
  }
  for (const auto& [operation, of_kernel] : results) add_work(of_kernel);
  kept_->queued.clear();
  return work_;
}

namespace {

void compute_and_wait(RuntimeContext& torch, Provider& provider, Direction direction) {
  try {
    direction == Direction::forward ? provider.forward() : provider.backward();
  } catch (...) {
    try {
      torch.ahbm.synchronize();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the provider's own error came first
    }
    throw;
  }
  torch.ahbm.synchronize();
}

}  // namespace

void compute(RuntimeContext& torch, Provider& provider, const ProviderInfo& info,
             const Definition& definition, Direction direction) {
  try {
    compute_and_wait(torch, provider, direction);
  } catch (const Error& error) {
    if (error.code() == "KB-S001") throw;
    std::string_view text = error.what();
    const std::string code = fmt::format("[{}] ", error.code());
    if (text.starts_with(code)) text.remove_prefix(code.size());
    throw Error(error.code(), error.exit_code(),
                fmt::format("{} {}, {}: {}", info.name, name_of(direction),
                            describe(definition.problem), text));
  }
}

}  // namespace kernbench::benches::operators
