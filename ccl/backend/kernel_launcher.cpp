#include "ccl/backend/kernel_launcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/launch/kernel_launch.h"
#include "runtime/launch/queue_residue.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/operation.h"
#include "sim_engine/components/processing_element.h"

namespace kernbench::ccl {

namespace {

sim::PeLocation location_of(const ShardInfo& shard) {
  return {shard.sip, shard.cube, shard.pe};
}

// True if only the first of the PEs in a cube takes part, for all that share its shard.
bool has_leader(const DPPolicy& placement) {
  return !is_sharded(placement.pe);
}

// Returns the PEs that run the kernel: those whose shard has elements; of PEs that share one, the
// leader.
std::vector<sim::PeLocation> participants(const Tensor& x) {
  std::vector<sim::PeLocation> pes;
  for (const ShardInfo& shard : x.shards()) {
    if (shard.shape.numel() == 0 || (has_leader(x.dp()) && shard.pe != 0)) continue;
    pes.push_back(location_of(shard));
  }
  return pes;
}

[[noreturn]] void misplaced(const Tensor& x, std::string_view why) {
  throw CollectiveError("KB-C013", "tensor '{}' ({}) lies on {} PEs: {}", x.name(),
                        to_string(x.dp()), x.shards().size(), why);
}

// Returns "out of TCM ..." for "[KB-M010] out of TCM ...".
std::string text_without_code(const Error& error) {
  const std::string text = error.what();
  return text.substr(text.find(' ') + 1);
}

}  // namespace

KernelLauncher::KernelLauncher(RuntimeContext& torch, const Config& config)
    : torch_(torch), config_(config), ipcq_(config.ipcq()), layout_(torch.topology(), config) {
  sim::Machine& machine = simulation_of(torch).machine();
  try {
    layout_.install(machine, ipcq_);
    eager_ = std::make_shared<EagerSlots>(machine, config.eager_bytes());
    queues_ = layout_.most_queues();
    check_scratch();
  } catch (const DeviceError& error) {
    machine.disconnect_all();
    if (error.code() == "KB-M010") config_.refuse_queues(text_without_code(error));
    throw;
  } catch (...) {
    machine.disconnect_all();
    throw;
  }
}

KernelLauncher::KernelLauncher(const KernelLauncher& of_all, const std::vector<int>& sips)
    : torch_(of_all.torch_),
      config_(of_all.config_),
      ipcq_(of_all.ipcq_),
      layout_(torch_.topology(), config_, sips),
      eager_(of_all.eager_),
      is_of_group_(true) {
  sim::Machine& machine = simulation_of(torch_).machine();
  try {
    port_names_ = layout_.install_beside(machine, ipcq_);
    for (const int sip : sips) {  // other groups may have queues there too
      const auto ins = machine.pe({sip, 0, 0}).ipcq().ins();
      const auto with_slots = std::ranges::count_if(ins, [](const sim::IpcqChannel* queue) {
        return queue->params().slot_bytes > 0 && !queue->params().is_reserved;
      });
      queues_ = std::max({queues_, layout_.most_queues(), static_cast<int>(with_slots)});
    }
    check_scratch();
  } catch (const DeviceError& error) {
    if (error.code() == "KB-M010") config_.refuse_queues(text_without_code(error));
    throw;
  }
}

// A segment needs a chunk of at least one element for each participant and direction of travel.
void KernelLauncher::check_scratch() const {
  const Topology& topology = torch_.topology();
  if (scratch_elements(topology, ipcq_, queues_, DType::f32) >= 2 * layout_.world_size()) return;
  throw DeviceError("KB-M010",
                    "{} queues of {} x {} B leave no room for values in a TCM of {} B; use fewer "
                    "or smaller slots, or buffer_kind sram or hbm",
                    queues_, ipcq_.depth, ipcq_.slot_bytes, topology.pe.tcm.capacity);
}

KernelLauncher::~KernelLauncher() {
  if (!is_of_group_) simulation_of(torch_).machine().disconnect_all();
}

void KernelLauncher::check_pe_shards(const Tensor& x) const {
  const std::vector<ShardInfo>& shards = x.shards();
  bool fits = static_cast<int>(shards.size()) == layout_.world_size() && is_sharded(x.dp().cube) &&
              is_sharded(x.dp().pe);
  for (std::size_t i = 0; fits && i < shards.size(); ++i) {
    fits = location_of(shards[i]) == layout_.pe(static_cast<int>(i)) &&
           shards[i].shape.numel() == shards.front().shape.numel();
  }
  if (fits) return;
  const TensorOptions wanted = layout_.placement({});
  misplaced(x,
            fmt::format("world_size in ccl.yaml is {}, and each PE is a rank with a shard of its "
                        "own of the same size; use DPPolicy {}, num_sips={} and a number of "
                        "columns that it divides",
                        layout_.world_size(), to_string(wanted.dp), wanted.num_sips));
}

void KernelLauncher::check_placement(const Algorithm& algorithm, const Tensor& x) const {
  if (layout_.is_rank_pe()) return check_pe_shards(x);
  if (const int sips = x.shards().back().sip - x.device() + 1; sips > 1) {
    misplaced(x, fmt::format("it spans {} SIPs, but a rank is one SIP; num_sips is for ranks that "
                             "are PEs (world_size in ccl.yaml)",
                             sips));
  }
  if (config_.participants() == Participants::one_pe_per_sip && x.shards().size() != 1) {
    misplaced(x, "ccl.yaml says participants: one_pe_per_sip; use DPPolicy::on_one_pe()");
  }
  if (algorithm.reduces_in_sip) return;
  const int cubes = x.dp().cube_holders(torch_.topology());
  const int pes = x.dp().pe_holders(torch_.topology());
  if ((cubes > 1 && !is_sharded(x.dp().cube)) || (pes > 1 && !is_sharded(x.dp().pe))) {
    misplaced(x, fmt::format("{} does not add up or copy between the PEs of a SIP; use row_wise or "
                             "column_wise, or DPPolicy::on_one_pe(), or another algorithm",
                             algorithm.name));
  }
}

KernelArgs KernelLauncher::arguments(const Tensor& x, const sim::PeLocation& pe) const {
  const Topology& topology = torch_.topology();
  KernelArgs args;
  args.tensor = runtime::shard_pointer(x, pe);
  args.dtype = x.dtype();
  args.rank = layout_.find_participant(pe);
  args.world_size = layout_.world_size();
  args.place = &layout_.place(args.rank);
  args.cubes = sim::cube_grid(topology);
  args.cube_count = x.dp().cube_holders(topology);
  args.root = config_.root();
  args.placement = x.dp();
  args.slot_elements = std::max<std::int64_t>(ipcq_.slot_bytes / size_of(x.dtype()), 1);
  args.slots = ipcq_.depth;
  args.scratch_elements = scratch_elements(topology, ipcq_, queues_, x.dtype());
  for (const ShardInfo& shard : x.shards()) {
    const sim::PeLocation at = location_of(shard);
    if (at == pe) args.n_elem = shard.shape.numel();
    if (has_leader(x.dp()) && at.sip == pe.sip && at.cube == pe.cube && at != pe) {
      args.siblings.push_back(runtime::shard_pointer(x, at));
    }
  }
  return args;
}

std::int64_t KernelLauncher::launch(const Algorithm& algorithm, std::span<const Tensor> tensors,
                                    std::uint64_t operation) const {
  const auto tensor_on = [&](int sip) -> const Tensor& {
    const auto found = std::ranges::find(tensors, sip, &Tensor::device);
    return found == tensors.end() ? tensors.front() : *found;  // the one that spans the SIPs
  };
  runtime::LaunchRequest request{std::string(algorithm.name),
                                 {},
                                 [&](tl::Context& tl) {
                                   const auto names = port_names_.find(tl.location());
                                   if (names != port_names_.end()) tl.name_ports(names->second);
                                   algorithm.kernel(
                                       tl, arguments(tensor_on(tl.location().sip), tl.location()));
                                 },
                                 {tensors.begin(), tensors.end()},
                                 operation,
                                 true};
  for (const Tensor& x : tensors) {
    const std::vector<sim::PeLocation> pes = participants(x);
    request.pes.insert(request.pes.end(), pes.begin(), pes.end());
  }
  simulation_of(torch_).log(runtime::LogTopic::ccl, [&] {
    return fmt::format("{} runs '{}' of {} B on {} PEs", algorithm.collective, algorithm.name,
                       tensors.front().numel() * size_of(tensors.front().dtype()),
                       request.pes.size());
  });
  std::int64_t open_messages = 0;
  if (!request.pes.empty()) {
    open_messages = runtime::launch(simulation_of(torch_), std::move(request));
  }
  for (const Tensor& x : tensors) runtime::mark_replicated(*x.storage());
  return open_messages;
}

void KernelLauncher::check_queues(const Algorithm& algorithm, std::uint64_t operation,
                                  std::int64_t open_messages) const {
  if (open_messages == 0) return;
  const auto residue = runtime::take_residue(
      simulation_of(torch_).machine(), runtime::QueueScope::all, sim::Operation{operation, true},
      fmt::format("kernel '{}'", algorithm.name));
  if (residue) throw *residue;
}

void KernelLauncher::launch(const Algorithm& algorithm, std::span<const Tensor> tensors) const {
  for (const Tensor& x : tensors) {
    torch_.check_on_device(x, algorithm.name);
    check_placement(algorithm, x);
  }
  const std::uint64_t operation = simulation_of(torch_).next_operation();
  simulation_of(torch_).begin(operation);
  check_queues(algorithm, operation, launch(algorithm, tensors, operation));
}

}  // namespace kernbench::ccl
