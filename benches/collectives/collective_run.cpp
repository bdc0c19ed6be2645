#include "benches/collectives/collective_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/collectives/exact_summands.h"
#include "ccl/choice.h"
#include "ccl/kernel_launcher.h"
#include "ccl/lower_bound.h"
#include "runtime/simulation/simulation.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

// The outcome of an all_reduce.
struct Outcome {
  Time first_call = Time::max();
  Time last_return{0};
  std::vector<Tensor> tensors;  // by rank; rank = PE: the driver's
};

TensorOptions options_of(const CollectiveInput& input) {
  return {.dtype = input.dtype, .dp = input.placement, .name = "ccl_in"};
}

Tensor bring_summands(RuntimeContext& torch, int rank, const CollectiveInput& input,
                      const ExactSummands& summands) {
  torch.ahbm.set_device(rank);
  Tensor x = torch.empty({1, input.n_elem}, options_of(input));
  for (std::size_t i = 0; i < x.shards().size(); ++i) {
    const ShardInfo& shard = x.shards()[i];
    if (shard.shape.numel() == 0) continue;
    x.copy_shard_(i, RuntimeContext::tensor(summands.of_shard(rank, shard), shard.shape));
  }
  return x;
}

void worker(int rank, RuntimeContext& torch, const CollectiveInput& input,
            const ExactSummands& summands, Outcome& outcome) {
  Tensor x = bring_summands(torch, rank, input, summands);
  outcome.first_call = std::min(outcome.first_call, torch.engine().now());
  torch.distributed.all_reduce(x, ReduceOp::sum);
  outcome.last_return = std::max(outcome.last_return, torch.engine().now());
  outcome.tensors[static_cast<std::size_t>(rank)] = x;
}

// The cells that the row of every kind of run has.
CollectiveRow row_of(RuntimeContext& torch, const ccl::Config& config, const CollectiveInput& input,
                     const ccl::Algorithm& algorithm, const Outcome& outcome, int world_size) {
  CollectiveRow row;
  row.world_size = world_size;
  row.time = outcome.last_return - outcome.first_call;
  row.collective = algorithm.collective;
  row.algorithm = algorithm.name;
  row.buffer_kind = name_of(config.ipcq().buffer_kind);
  row.n_elem = input.n_elem;
  row.dtype = input.dtype;
  row.bytes = input.n_elem * size_of(input.dtype);
  row.critical = torch.engine().critical_pe_exec();
  if (algorithm.closed_form != nullptr) {
    row.closed_form = algorithm.closed_form(
        {torch.topology(), input.placement, input.n_elem, input.dtype, config});
    if (row.closed_form) row.form = algorithm.form;
    if (row.closed_form && config.world_size()) row.form += ", plus n loaded and stored";
  }
  return row;
}

// The algorithm that ran, and for auto the reason for its choice.
std::pair<const ccl::Algorithm*, std::string> algorithm_of(RuntimeContext& torch,
                                                           const ccl::Config& config, Bytes bytes,
                                                           int lanes) {
  const auto& used = torch.engine().algorithms_used();
  const ccl::Algorithm* algorithm =
      used.empty() ? &ccl::default_algorithm(config) : ccl::find_algorithm(used.back().algorithm);
  if (!config.is_auto()) return {algorithm, ""};
  return {algorithm, ccl::AlgorithmChoice::of_all(torch.topology(), config)
                         .describe(distributed::CollectiveKind::all_reduce, bytes, lanes)};
}

CollectiveRow reduce_over_sips(RuntimeContext& torch, const ccl::Config& config,
                               const CollectiveInput& input) {
  const Topology& topology = torch.topology();
  torch.distributed.init_process_group("ahbm");
  const int world_size = torch.distributed.get_world_size();
  const ExactSummands summands(topology, input.placement, input.dtype, input.n_elem, input.seed);
  Outcome outcome;
  outcome.tensors.resize(static_cast<std::size_t>(world_size));
  torch.multiprocessing.spawn(worker, std::forward_as_tuple(torch, input, summands, outcome),
                              world_size);
  const auto [algorithm, why] =
      algorithm_of(torch, config, input.n_elem * size_of(input.dtype),
                   static_cast<int>(outcome.tensors.front().shards().size()));
  CollectiveRow row = row_of(torch, config, input, *algorithm, outcome, world_size);
  row.why = why;
  row.lower_bound = ccl::all_reduce_lower_bound(topology, row.bytes);
  row.wrong = summands.count_wrong(outcome.tensors);
  torch.distributed.destroy_process_group();
  return row;
}

CollectiveRow reduce_over_pes(RuntimeContext& torch, const ccl::Config& config,
                              const CollectiveInput& input) {
  const Topology& topology = torch.topology();
  const TensorOptions options = ccl::Layout(topology, config).placement(options_of(input));
  const int world_size = *config.world_size();
  const Shape shape{1, world_size * input.n_elem};
  torch.distributed.init_process_group("ahbm");
  const ExactSummands summands(world_size, input.dtype, input.n_elem, input.seed);
  Tensor x = torch.empty(shape, options);
  for (std::size_t i = 0; i < x.shards().size(); ++i) {
    x.copy_shard_(
        i, RuntimeContext::tensor(summands.of_participant(static_cast<int>(i)), {1, input.n_elem}));
  }
  Outcome outcome;
  outcome.first_call = torch.engine().now();
  torch.distributed.all_reduce(x, ReduceOp::sum);
  outcome.last_return = torch.engine().now();
  const auto [algorithm, why] =
      algorithm_of(torch, config, input.n_elem * size_of(input.dtype), 1);
  CollectiveRow row = row_of(torch, config, input, *algorithm, outcome, world_size);
  row.why = why;
  row.lower_bound = ccl::pe_all_reduce_lower_bound(topology, world_size, row.bytes);
  row.wrong = summands.count_wrong_shards(x);
  torch.distributed.destroy_process_group();
  return row;
}

// A shift: every participant ends with the values of the previous one.  It is launched directly,
// since it is no all_reduce.
class Shift {
 public:
  Shift(RuntimeContext& torch, const ccl::Config& config, const CollectiveInput& input)
      : torch_(torch),
        config_(config),
        input_(input),
        launcher_(torch, config),
        layout_(launcher_.layout()),
        summands_(layout_.world_size(), input.dtype, input.n_elem, input.seed) {}

  CollectiveRow run() {
    Outcome outcome;
    outcome.tensors = make_tensors();
    for (Tensor& x : outcome.tensors) bring_values(x);
    outcome.first_call = torch_.engine().now();
    const ccl::Algorithm& algorithm = config_.algorithm();
    torch_.simulation().note_algorithm({algorithm.collective, algorithm.name, true});
    launcher_.launch(algorithm, outcome.tensors);
    outcome.last_return = torch_.engine().now();
    CollectiveRow row =
        row_of(torch_, config_, input_, config_.algorithm(), outcome, layout_.world_size());
    row.bus_factor = 1;
    row.redop = "none";
    for (const Tensor& x : outcome.tensors) row.wrong += count_wrong(x);
    return row;
  }

 private:
  // One tensor on each SIP; if ranks are PEs, the driver's single tensor.
  std::vector<Tensor> make_tensors() {
    if (layout_.is_rank_pe()) {
      return {torch_.empty({1, layout_.world_size() * input_.n_elem},
                           layout_.placement(options_of(input_)))};
    }
    std::vector<Tensor> tensors;
    for (int sip = 0; sip < layout_.world_size(); ++sip) {
      torch_.ahbm.set_device(sip);
      tensors.push_back(torch_.empty({1, input_.n_elem}, options_of(input_)));
    }
    return tensors;
  }

  void bring_values(Tensor& x) const {
    for (std::size_t i = 0; i < x.shards().size(); ++i) {
      const ShardInfo& shard = x.shards()[i];
      if (shard.shape.numel() == 0) continue;
      x.copy_shard_(i, RuntimeContext::tensor(values_of(holder_of(shard), shard), shard.shape));
    }
  }

  std::int64_t count_wrong(const Tensor& x) const {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < x.shards().size(); ++i) {
      const ShardInfo& shard = x.shards()[i];
      if (shard.shape.numel() == 0) continue;
      const std::vector<float> expected = values_of(previous_of(holder_of(shard)), shard);
      const std::vector<float> found = x.shard_to_vector(i);
      for (std::size_t e = 0; e < found.size(); ++e) wrong += found[e] != expected[e];
    }
    return wrong;
  }

  int holder_of(const ShardInfo& shard) const {
    return layout_.participant_of({shard.sip, shard.cube, shard.pe});
  }

  // The participant before this one in the ring.
  int previous_of(int participant) const {
    const ccl::RingPlace& ring = layout_.place(participant).ring.value();
    const int index = (ring.index + ring.size - 1) % ring.size;
    int previous = 0;
    while (layout_.place(previous).ring->index != index) ++previous;
    return previous;
  }

  // The elements that a participant contributes for a shard.
  std::vector<float> values_of(int participant, const ShardInfo& shard) const {
    const std::vector<float> all = summands_.of_participant(participant);
    const auto first = all.begin() + (layout_.is_rank_pe() ? 0 : shard.offset[1]);
    return {first, first + shard.shape.numel()};
  }

  RuntimeContext& torch_;
  const ccl::Config& config_;
  const CollectiveInput& input_;
  const ccl::KernelLauncher launcher_;
  const ccl::Layout& layout_;
  const ExactSummands summands_;
};

}  // namespace

DPPolicy default_placement(const ccl::Config& config) {
  if (config.participants() == ccl::Participants::one_pe_per_sip) return DPPolicy::replicated();
  const bool adds_up = config.is_auto() || config.algorithm().reduces_in_sip;
  return {.cube = adds_up ? Shard::partial : Shard::column_wise, .pe = Shard::column_wise};
}

CollectiveRow run_collective(RuntimeContext& torch, const ccl::Config& config,
                             const CollectiveInput& input) {
  const std::string_view collective =
      config.is_auto() ? "all_reduce" : config.algorithm().collective;
  if (collective == "shift") return Shift(torch, config, input).run();
  if (collective != "all_reduce") {
    throw CollectiveError("KB-C012",
                          fmt::format("'{}' is a {}, and this bench can check an all_reduce or a "
                                      "shift; write a bench of your own for it",
                                      config.algorithm_name(), collective));
  }
  return config.world_size() ? reduce_over_pes(torch, config, input)
                             : reduce_over_sips(torch, config, input);
}

}  // namespace kernbench::benches
