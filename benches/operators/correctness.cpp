#include "benches/operators/correctness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "benches/bench/context_set.h"
#include "benches/operators/operator_run.h"
#include "benches/operators/reference.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::operators {

namespace {

// One of Definition::results().
struct Result {
  Direction direction = Direction::forward;
  std::size_t index = 0;  // among those of its direction
  NodeId node = -1;
  std::string name;  // "y0", "dx", "dweight[2]"
  int column = -1;   // of the tensor; -1: all
};

std::vector<Result> list_results(const Definition& definition) {
  std::vector<Result> results;
  for (std::size_t i = 0; i < definition.outputs.size(); ++i) {
    results.push_back({Direction::forward, i, definition.outputs[i], fmt::format("y{}", i)});
  }
  for (std::size_t i = 0; i < definition.gradients.size(); ++i) {
    const auto& [input, column, node] = definition.gradients[i];
    std::string name = "d" + definition.inputs[static_cast<std::size_t>(input)].name;
    if (column >= 0) name += fmt::format("[{}]", column);
    results.push_back({Direction::backward, i, node, std::move(name), column});
  }
  return results;
}

// The largest shares of what is allowed, so far.
struct Errors {
  double of_gate = 0;
  double of_bound = 0;
};

// A provider that has run.
struct Checked {
  const ProviderInfo* info = nullptr;
  std::unique_ptr<OperatorRun> run;
  std::array<Errors, kDirections.size()> errors = {};
  std::vector<std::vector<double>> sums = {};  // by result, over PEs
  std::vector<std::vector<float>> rows = {};   // by result, of the PE at hand

  Errors& errors_of(Direction direction) { return errors[static_cast<std::size_t>(direction)]; }
};

class Check {
 public:
  Check(PointContext& point, const OperatorCase& operator_case, const Problem& problem);

  void run_providers();
  void compare();
  std::vector<Row> rows();

 private:
  // The position of an element of the results.
  struct Where {
    const Result& result;
    std::int64_t row = 0;
    std::int64_t column = 0;
  };

  void compare_on_pe(std::size_t shard);
  void read_results(std::size_t shard);
  void compare_token(std::int64_t token, std::int64_t row);
  void compare_sums();
  // Compares the element found by each provider with the reference's value and bound.
  void compare(const Where& where, double value, double bound);
  void check_bound(const Where& where, double value, double bound) const;
  void check_inputs_unwritten(const ProviderInfo& info) const;
  [[noreturn]] void refuse(const Where& where, const Checked& provider, double found,
                           std::string_view instead) const;

  PointContext& point_;
  const OperatorCase& case_;
  const std::vector<ProviderInfo> infos_;
  const Definition definition_;
  const std::vector<Result> results_;
  const ContextSet::Context torch_;
  const std::vector<Tensor> inputs_;
  const std::uint64_t version_;  // of the inputs, before anybody has run
  std::vector<Checked> providers_;
  std::optional<Reference> reference_;
  std::vector<double> found_;  // an element, by provider
};

Check::Check(PointContext& point, const OperatorCase& operator_case, const Problem& problem)
    : point_(point),
      case_(operator_case),
      infos_(operator_case.providers()),
      definition_(define(operator_case, problem)),
      results_(list_results(definition_)),
      torch_(point.make_context(point.bench().topology(), {.data = true, .energy = false})),
      inputs_(make_inputs(*torch_, definition_)),
      version_(simulation_of(*torch_).last_write()) {}

void Check::run_providers() {
  for (const ProviderInfo& info : infos_) {
    auto run = std::make_unique<OperatorRun>(*torch_, definition_, inputs_);
    const std::unique_ptr<Provider> provider = make_provider(info, *run);
    for (const Direction direction : directions_of(definition_)) {
      compute(*torch_, *provider, info, definition_, direction);
    }
    check_inputs_unwritten(info);
    providers_.push_back({.info = &info, .run = std::move(run)});
  }
  found_.resize(providers_.size());
}

// Refuses a provider that has written an input: the other providers and the reference read it too.
void Check::check_inputs_unwritten(const ProviderInfo& info) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!runtime::is_written_after(*inputs_[i].storage(), version_)) continue;
    throw Error("KB-O005", ExitCode::collective_misuse,
                "{}, {}: {} writes into {}, which is an input; results go to output() and "
                "gradient(), what is on its way to saved()",
                case_.name(), describe(definition_.problem), info.name,
                in_quotes(inputs_[i].name()));
  }
}

void Check::compare() {
  const auto& shares = providers_.front().run->shares();
  reference_.emplace(definition_, std::ranges::max(shares, {}, &TokenShare::count).count);
  for (std::size_t i = 0; i < definition_.inputs.size(); ++i) {
    if (definition_.inputs[i].extents.rows == Rows::tokens) continue;
    reference_->set_parameter(static_cast<int>(i), inputs_[i].shard_to_vector(0));
  }
  for (Checked& provider : providers_) {
    provider.sums.resize(results_.size());
    provider.rows.resize(results_.size());
  }
  const std::vector<ShardInfo>& shards =
      inputs_[static_cast<std::size_t>(definition_.node(definition_.upstream.front()).input)]
          .shards();
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    point_.throw_if_interrupted();
    if (shards[shard].shape.numel() > 0) compare_on_pe(shard);
  }
  compare_sums();
}

// Compares the results of one PE at a time, so that the values computed for it can be freed.
void Check::compare_on_pe(std::size_t shard) {
  read_results(shard);
  std::vector<std::vector<float>> elements(inputs_.size());
  std::vector<std::span<const float>> row(inputs_.size());
  std::int64_t first = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].dp().cube != Shard::row_wise) continue;
    elements[i] = inputs_[i].shard_to_vector(shard);
    first = inputs_[i].shards()[shard].offset[0];
    count = inputs_[i].shards()[shard].shape[0];
  }
  for (std::int64_t token = 0; token < count; ++token) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (elements[i].empty()) continue;
      const auto columns = static_cast<std::size_t>(inputs_[i].shape()[1]);
      row[i] = std::span(elements[i]).subspan(static_cast<std::size_t>(token) * columns, columns);
    }
    reference_->evaluate(first + token, row);
    compare_token(first + token, token);
  }
}

void Check::read_results(std::size_t shard) {
  for (Checked& provider : providers_) {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const auto& [direction, index, node, name, column] = results_[i];
      std::vector<float> read = provider.run->result(direction, index).shard_to_vector(shard);
      if (definition_.node(node).is_per_token()) {
        provider.rows[i] = std::move(read);
        continue;
      }
      std::vector<double>& sums = provider.sums[i];
      sums.resize(read.size(), 0);
      for (std::size_t j = 0; j < read.size(); ++j) sums[j] += read[j];
    }
  }
}

void Check::compare_token(std::int64_t token, std::int64_t row) {
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const Node& node = definition_.node(results_[i].node);
    if (!node.is_per_token()) continue;
    const Estimate& estimate = reference_->of(results_[i].node);
    const std::int64_t columns = node.extents.columns;
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto at = static_cast<std::size_t>(row * columns + column);
      for (std::size_t p = 0; p < providers_.size(); ++p) found_[p] = providers_[p].rows[i][at];
      const auto in_row = static_cast<std::size_t>(column);
      compare({results_[i], token, column}, estimate.value[in_row], estimate.bound[in_row]);
    }
  }
}

void Check::compare_sums() {
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const Result& result = results_[i];
    if (definition_.node(result.node).is_per_token()) continue;
    const Estimate estimate = reference_->estimate_sum(result.node);
    const std::int64_t columns =
        providers_.front().run->result(result.direction, result.index).shape()[1];
    for (std::size_t j = 0; j < estimate.value.size(); ++j) {
      const auto number = static_cast<std::int64_t>(j);
      const std::int64_t at = result.column < 0 ? number : number * columns + result.column;
      for (std::size_t p = 0; p < providers_.size(); ++p) {
        found_[p] = providers_[p].sums[i][static_cast<std::size_t>(at)];
      }
      compare({result, at / columns, at % columns}, estimate.value[j], estimate.bound[j]);
    }
  }
}

void Check::check_bound(const Where& where, double value, double bound) const {
  if (std::isfinite(value) && std::isfinite(bound)) return;
  const std::optional<NodeId> node = reference_->unbounded();
  throw NumericsError(
      "KB-N041",
      "{}, {}: {} at [{}, {}] is {} in f64, and has no bound on its roundings: {}; add an eps, or "
      "if tokens that are 0 are none of the operator's, set has_small_rows of its inputs to false",
      case_.name(), describe(definition_.problem), where.result.name, where.row, where.column,
      value,
      node ? fmt::format("node {} of the graph is an rsqrt of what may be 0 or less", *node)
           : "it is too large");
}

void Check::compare(const Where& where, double value, double bound) {
  check_bound(where, value, bound);
  const double first = found_.front();
  const double gate = kAtol + kRtol * std::abs(first);
  for (std::size_t p = 0; p < providers_.size(); ++p) {
    const double found = found_[p];
    const double off = std::abs(found - value);
    const double apart = std::abs(found - first);
    if (!(apart <= gate)) {
      refuse(where, providers_[p], found,
             fmt::format("{} has {:.9g}, and may differ by {:.3g} (atol = rtol = {})",
                         infos_.front().name, first, gate, kAtol));
    }
    if (!(off <= bound)) {
      refuse(where, providers_[p], found,
             fmt::format("in f64 it is {:.9g}, and roundings account for {:.3g} at most", value,
                         bound));
    }
    Errors& errors = providers_[p].errors_of(where.result.direction);
    errors.of_gate = std::max(errors.of_gate, apart / gate);
    if (off > 0) errors.of_bound = std::max(errors.of_bound, off / bound);
  }
}

void Check::refuse(const Where& where, const Checked& provider, double found,
                   std::string_view instead) const {
  throw NumericsError("KB-N040", "{}, {}: {} {} is wrong: {} at [{}, {}] is {:.9g}; {}",
                      case_.name(), describe(definition_.problem), provider.info->name,
                      name_of(where.result.direction), where.result.name, where.row, where.column,
                      found, instead);
}

std::vector<Row> Check::rows() {
  const auto& [batch, seq, dim] = definition_.problem.size;
  std::vector<Row> rows;
  for (const Direction direction : directions_of(definition_)) {
    for (Checked& provider : providers_) {
      const Errors& errors = provider.errors_of(direction);
      rows.push_back(Row()
                         .set("checked", name_of(definition_.problem.dtype))
                         .set("direction", name_of(direction))
                         .set("dim", dim)
                         .set("batch_size", batch)
                         .set("seq_len", seq)
                         .set("provider", provider.info->name)
                         .set("of_gate", errors.of_gate)
                         .set("of_bound", errors.of_bound));
    }
  }
  return rows;
}

}  // namespace

Bytes checked_bytes(const Definition& definition, std::size_t providers) {
  const auto bytes_of = [&](NodeId id) {
    const Node& node = definition.node(id);
    if (!node.is_per_token()) return Bytes{0};
    return definition.problem.size.tokens() * node.extents.columns * size_of(node.dtype);
  };
  Bytes bytes = 0;
  for (NodeId id = 0; id < definition.graph->size(); ++id) {
    if (definition.node(id).op == Op::input) bytes += bytes_of(id);
  }
  for (const Direction direction : kDirections) {
    for (const NodeId id : definition.results(direction)) {
      bytes += static_cast<Bytes>(providers) * bytes_of(id);
    }
  }
  return bytes;
}

std::vector<Row> check_providers(PointContext& point, const OperatorCase& operator_case,
                                 const Problem& problem) {
  Check check(point, operator_case, problem);
  check.run_providers();
  check.compare();
  return check.rows();
}

}  // namespace kernbench::benches::operators
