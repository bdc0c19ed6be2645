#include "benches/collective_run.h"

#include <algorithm>
#include <array>

#include "benches/exact_summands.h"
#include "ccl/auto_choice.h"
#include "ccl/kernel_launcher.h"
#include "ccl/lower_bound.h"

namespace kernbench::benches {

namespace {

// What an all_reduce leaves behind.
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

// What every kind of run has in its row.
CollectiveRow row_of(RuntimeContext& torch, const ccl::Config& config, const CollectiveInput& input,
                     const ccl::Algorithm& algorithm) {
  CollectiveRow row;
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

void set_time(CollectiveRow& row, const Outcome& outcome) {
  row.time = outcome.last_return - outcome.first_call;
}

// The algorithm that runs, and of auto why.
std::pair<const ccl::Algorithm*, std::string> algorithm_of(const Topology& topology,
                                                           const ccl::Config& config,
                                                           const Shape& shape,
                                                           const TensorOptions& options) {
  if (!config.is_auto()) return {&config.algorithm(), ""};
  const ccl::Choice choice = ccl::choose_algorithm(topology, config, shape, options);
  return {choice.algorithm, describe(choice)};
}

CollectiveRow reduce_over_sips(RuntimeContext& torch, const ccl::Config& config,
                               const CollectiveInput& input) {
  const Topology& topology = torch.topology();
  const auto [algorithm, why] =
      algorithm_of(topology, config, {1, input.n_elem}, options_of(input));
  torch.distributed.init_process_group("ahbm");
  const int world_size = torch.distributed.get_world_size();
  const ExactSummands summands(topology, input.placement, input.dtype, input.n_elem, input.seed);
  Outcome outcome;
  outcome.tensors.resize(static_cast<std::size_t>(world_size));
  torch.multiprocessing.spawn(worker, std::forward_as_tuple(torch, input, summands, outcome),
                              world_size);
  CollectiveRow row = row_of(torch, config, input, *algorithm);
  set_time(row, outcome);
  row.why = why;
  row.world_size = world_size;
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
  const auto [algorithm, why] = algorithm_of(topology, config, shape, options);
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
  CollectiveRow row = row_of(torch, config, input, *algorithm);
  set_time(row, outcome);
  row.why = why;
  row.world_size = world_size;
  row.lower_bound = ccl::pe_all_reduce_lower_bound(topology, world_size, row.bytes);
  row.wrong = summands.count_wrong_shards(x);
  torch.distributed.destroy_process_group();
  return row;
}

// Of participants, by their numbers: who stands before whom in the ring.
std::vector<int> previous_in_ring(const ccl::Layout& layout) {
  const auto size = static_cast<std::size_t>(layout.world_size());
  std::vector<int> by_index(size);
  for (std::size_t i = 0; i < size; ++i) {
    by_index[static_cast<std::size_t>(layout.place(static_cast<int>(i)).ring.value().index)] =
        static_cast<int>(i);
  }
  std::vector<int> previous(size);
  for (std::size_t i = 0; i < size; ++i) {
    previous[static_cast<std::size_t>(by_index[i])] = by_index[(i + size - 1) % size];
  }
  return previous;
}

// Everyone ends with the values of the one before.
CollectiveRow shift(RuntimeContext& torch, const ccl::Config& config,
                    const CollectiveInput& input) {
  const Topology& topology = torch.topology();
  const ccl::KernelLauncher launcher(torch, config);
  const ccl::Layout& layout = launcher.layout();
  const int world_size = layout.world_size();
  const ExactSummands summands(world_size, input.dtype, input.n_elem, input.seed);
  std::vector<Tensor> tensors;
  if (layout.is_rank_pe()) {
    tensors.push_back(
        torch.empty({1, world_size * input.n_elem}, layout.placement(options_of(input))));
  }
  for (int sip = 0; sip < topology.system.sip_count && !layout.is_rank_pe(); ++sip) {
    torch.ahbm.set_device(sip);
    tensors.push_back(torch.empty({1, input.n_elem}, options_of(input)));
  }
  const auto values_of = [&](int participant, const ShardInfo& shard) {
    const std::vector<float> all = summands.of_participant(participant);
    const auto first = all.begin() + (layout.is_rank_pe() ? 0 : shard.offset[1]);
    return std::vector<float>(first, first + shard.shape.numel());
  };
  const auto participant_of = [&](const ShardInfo& shard) {
    return layout.participant_of({shard.sip, shard.cube, shard.pe});
  };
  for (Tensor& x : tensors) {
    for (std::size_t i = 0; i < x.shards().size(); ++i) {
      const ShardInfo& shard = x.shards()[i];
      if (shard.shape.numel() == 0) continue;
      x.copy_shard_(i,
                    RuntimeContext::tensor(values_of(participant_of(shard), shard), shard.shape));
    }
  }
  Outcome outcome;
  outcome.first_call = torch.engine().now();
  launcher.launch(config.algorithm(), tensors);
  outcome.last_return = torch.engine().now();
  CollectiveRow row = row_of(torch, config, input, config.algorithm());
  set_time(row, outcome);
  row.world_size = world_size;
  row.bus_factor = 1;
  row.redop = "none";
  const std::vector<int> previous = previous_in_ring(layout);
  for (const Tensor& x : tensors) {
    for (std::size_t i = 0; i < x.shards().size(); ++i) {
      const ShardInfo& shard = x.shards()[i];
      const int before = previous[static_cast<std::size_t>(participant_of(shard))];
      if (shard.shape.numel() == 0) continue;
      const std::vector<float> expected = values_of(before, shard);
      const std::vector<float> found = x.shard_to_vector(i);
      for (std::size_t e = 0; e < found.size(); ++e) row.wrong += found[e] != expected[e];
    }
  }
  return row;
}

}  // namespace

DPPolicy default_placement(const ccl::Config& config) {
  if (config.participants() == ccl::Participants::one_pe_per_sip) return DPPolicy::replicated();
  const bool adds_up = config.is_auto() || config.algorithm().reduces_in_sip;
  return {.cube = adds_up ? Shard::partial : Shard::column_wise, .pe = Shard::column_wise};
}

CollectiveRow run_collective(RuntimeContext& torch, const ccl::Config& config,
                             const CollectiveInput& input) {
  if (!config.is_auto() && config.algorithm().collective != "all_reduce") {
    return shift(torch, config, input);
  }
  return config.world_size() ? reduce_over_pes(torch, config, input)
                             : reduce_over_sips(torch, config, input);
}

}  // namespace kernbench::benches
