#include "ccl/ahbm_backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "ccl/algorithms/sip_exchange.h"
#include "ccl/lower_bound.h"
#include "ccl/neighbours.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::ccl {

namespace {

// Of PEs in a cube that share a shard, only the first takes part for all.
bool has_leader(const DPPolicy& placement) {
  return !is_sharded(placement.pe);
}

// The PEs that run the kernel: those whose shard has elements, of sharers the leaders.
std::vector<sim::PeLocation> participants(const Tensor& x) {
  std::vector<sim::PeLocation> pes;
  for (const ShardInfo& shard : x.shards()) {
    if (shard.shape.numel() == 0 || (has_leader(x.dp()) && shard.pe != 0)) continue;
    pes.push_back({shard.sip, shard.cube, shard.pe});
  }
  return pes;
}

}  // namespace

AhbmBackend::AhbmBackend(RuntimeContext& torch, const Config& config)
    : torch_(torch), config_(config), ipcq_(config.ipcq()) {
  install_neighbours(torch.simulation().machine(), ipcq_);
  const sim::Grid sips = sim::sip_grid(torch.topology());
  if (scratch_elements(torch.topology(), ipcq_, DType::f32) < sip_exchange_chunk_count(sips)) {
    throw DeviceError(
        "KB-M010", fmt::format("queues of {} x {} B leave no room for values in a TCM of {} B; use "
                               "fewer or smaller slots, or buffer_kind sram or hbm",
                               ipcq_.depth, ipcq_.slot_bytes, torch.topology().pe.tcm.capacity));
  }
}

AhbmBackend::~AhbmBackend() {
  torch_.simulation().machine().disconnect_all();
}

KernelArgs AhbmBackend::arguments(const distributed::CollectiveCall& call, const Tensor& x,
                                  const sim::PeLocation& pe) const {
  const Topology& topology = torch_.topology();
  KernelArgs args;
  args.tensor = RuntimeContext::pointer_to(x, pe);
  args.dtype = x.dtype();
  args.rank = call.rank;
  args.world_size = world_size();
  args.sips = sim::sip_grid(topology);
  args.cubes = sim::cube_grid(topology);
  args.cube_count = x.dp().num_cubes == 0 ? topology.cube_count() : x.dp().num_cubes;
  args.placement = x.dp();
  args.slot_elements = ipcq_.slot_bytes / size_of(x.dtype());
  args.scratch_elements = scratch_elements(topology, ipcq_, x.dtype());
  for (const ShardInfo& shard : x.shards()) {
    const sim::PeLocation at{shard.sip, shard.cube, shard.pe};
    if (at == pe) args.n_elem = shard.shape.numel();
    if (has_leader(x.dp()) && at.cube == pe.cube && at != pe) {
      args.siblings.push_back(RuntimeContext::pointer_to(x, at));
    }
  }
  return args;
}

void AhbmBackend::all_reduce(const distributed::CollectiveCall& call, Tensor& x, ReduceOp) {
  Tensor::Storage& storage = *x.storage();
  runtime::LaunchRequest request{
      config_.algorithm_name(),
      participants(x),
      [&](tl::Context& tl) { config_.algorithm().kernel(tl, arguments(call, x, tl.location())); },
      {x},
      call.operation,
      true};
  under_way_.try_emplace(call.operation, UnderWay{torch_.simulation().now(), 0});
  if (!request.pes.empty()) runtime::run_kernel(torch_.simulation(), std::move(request));
  if (storage.dp.cube == Shard::partial) storage.dp.cube = Shard::replicate;
  if (storage.dp.pe == Shard::partial) storage.dp.pe = Shard::replicate;
  finish(call, x.numel() * size_of(x.dtype()));
}

// The last rank to finish checks the whole against what is possible.
void AhbmBackend::finish(const distributed::CollectiveCall& call, Bytes bytes) {
  UnderWay& collective = under_way_.at(call.operation);
  if (++collective.finished < world_size()) return;
  const Time took = torch_.simulation().now() - collective.first_start;
  const Time bound = all_reduce_lower_bound(torch_.topology(), bytes);
  KB_CHECK(took >= bound, "all_reduce of {} B took {}, less than the lower bound of {}", bytes,
           to_string(took), to_string(bound));
  under_way_.erase(call.operation);
}

void AhbmBackend::barrier(const distributed::CollectiveCall& call) {
  Tensor token(runtime::make_device_storage(
      torch_.shared_simulation(), call.rank, {1},
      {.dtype = DType::f32, .dp = DPPolicy::replicated(), .name = "barrier"}));
  runtime::fill(*token.storage(), 0);
  all_reduce(call, token, ReduceOp::sum);
}

bool register_ahbm_backend() {
  return distributed::register_backend(
      "ahbm",
      [](RuntimeContext& torch,
         const distributed::BackendConfig* config) -> std::unique_ptr<distributed::Backend> {
        const auto* own = dynamic_cast<const Config*>(config);
        if (own == nullptr && config != nullptr) {
          throw CollectiveError("KB-R002", "backend 'ahbm': its settings are not a ccl::Config");
        }
        return std::make_unique<AhbmBackend>(torch, own == nullptr ? Config() : *own);
      });
}

}  // namespace kernbench::ccl
