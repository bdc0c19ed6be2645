#include "ccl/ahbm_backend.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "ccl/algorithms/intercube_allreduce.h"
#include "ccl/lower_bound.h"
#include "runtime/distributed/backend.h"
#include "runtime/launch/queue_residue.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::ccl {

namespace {

int sip_count_of(const Tensor& x) {
  return x.shards().back().sip - x.shards().front().sip + 1;
}

}  // namespace

// With auto, the first rank to arrive chooses the algorithm for all ranks.
const Algorithm& WorldCommunicator::algorithm_for(const Tensor& x) {
  const Config& config = launcher_.config();
  if (!config.is_auto()) return config.algorithm();
  const ChoiceKey key{
      {x.shape().begin(), x.shape().end()}, x.dtype(), to_string(x.dp()), sip_count_of(x)};
  const auto known = choices_.find(key);
  if (known != choices_.end()) return *known->second.algorithm;

  Choice choice;
  torch_.simulation().fibers().call_on_main([&] {
    choice = choose_algorithm(torch_.topology(), config, x.shape(),
                              {.dtype = x.dtype(), .dp = x.dp(), .num_sips = sip_count_of(x)});
  });
  if (std::getenv("KERNBENCH_DEBUG") != nullptr) {
    fmt::print(stderr, "kernbench: auto: {} for {} {}: {}\n", choice.algorithm->name,
               to_string(x.shape()), name_of(x.dtype()), describe(choice));
  }
  return *choices_.emplace(key, std::move(choice)).first->second.algorithm;
}

void WorldCommunicator::run(const distributed::CollectiveCall& call) {
  using distributed::CollectiveKind;
  if (call.kind == CollectiveKind::barrier) return barrier(call);
  if (call.kind == CollectiveKind::all_reduce && call.op == ReduceOp::sum) {
    return all_reduce(call, call.takes.front().tensor);
  }
  check_rank_is_sip(distributed::op_type_of(call.kind));
  others_.run(call);
}

distributed::Communicator::RunsBy WorldCommunicator::runs_by(
    const distributed::CollectiveRequest& request) {
  using distributed::CollectiveKind;
  if (request.kind == CollectiveKind::barrier) {
    return caller_count_ == 1 ? RunsBy{} : RunsBy{kIntercubeAllReduce.name};
  }
  if (request.kind == CollectiveKind::all_reduce && request.op == ReduceOp::sum) {
    return {algorithm_for(request.takes.front().tensor).name, true};
  }
  return others_.runs_by(request);
}

void WorldCommunicator::transfer(std::uint64_t operation, const distributed::Block& source,
                                 const distributed::Block& target) {
  check_rank_is_sip("messages");
  others_.transfer(operation, source, target);
}

void WorldCommunicator::check_rank_is_sip(std::string_view what) const {
  if (!launcher_.layout().is_rank_pe()) return;
  throw CollectiveError(
      "KB-C023", fmt::format("ahbm runs {} between SIPs only, but with world_size in ccl.yaml the "
                             "ranks are {} PEs; take it out",
                             what, launcher_.layout().world_size()));
}

// The first group is the default one.  If it has all SIPs, it uses the queues of ccl.yaml, since
// those lead through all of them.
std::unique_ptr<distributed::Communicator> AhbmBackend::connect(const std::vector<int>& ranks) {
  const bool is_first = !std::exchange(has_world_, true);
  if (!is_first || static_cast<int>(ranks.size()) < caller_count()) {
    return std::make_unique<GroupCommunicator>(torch_, ranks, cuts_);
  }
  return std::make_unique<WorldCommunicator>(torch_, launcher_, ranks, cuts_);
}

void WorldCommunicator::all_reduce(const distributed::CollectiveCall& call, const Tensor& x) {
  const Algorithm& algorithm = algorithm_for(x);
  if (algorithm.collective != "all_reduce") {
    throw CollectiveError(
        "KB-C012", fmt::format("all_reduce: the algorithm '{}' that ccl.yaml chooses is a {}, no "
                               "all_reduce; choose another one for torch.distributed",
                               algorithm.name, algorithm.collective));
  }
  launcher_.check_placement(algorithm, x);
  run(call, algorithm, x);
}

void WorldCommunicator::run(const distributed::CollectiveCall& call, const Algorithm& algorithm,
                            const Tensor& x) {
  under_way_.try_emplace(call.operation, UnderWay{torch_.simulation().now()});
  const std::int64_t open = launcher_.launch(algorithm, std::span(&x, 1), call.operation);
  finish(call, algorithm, open, x.numel() * size_of(x.dtype()));
}

// The last rank to finish compares the time with the lower bound.
void WorldCommunicator::finish(const distributed::CollectiveCall& call, const Algorithm& algorithm,
                               std::int64_t open_messages, Bytes bytes) {
  UnderWay& under_way = under_way_.at(call.operation);
  under_way.open_messages += open_messages;
  if (++under_way.finished < caller_count_) return;
  const UnderWay collective = under_way;
  under_way_.erase(call.operation);
  launcher_.check_queues(algorithm, call.operation, collective.open_messages);
  const Time took = torch_.simulation().now() - collective.first_start;
  const Time bound =
      launcher_.layout().is_rank_pe()
          ? pe_all_reduce_lower_bound(torch_.topology(), launcher_.layout().world_size(),
                                      bytes / launcher_.layout().world_size())
          : all_reduce_lower_bound(torch_.topology(), bytes);
  if (took < bound && !is_of_library(algorithm)) {
    throw CollectiveError(
        "KB-C014", fmt::format("all_reduce of {} B by '{}' took {}, less than the {} that any "
                               "algorithm needs: it cannot have brought the values of all ranks to "
                               "all others",
                               bytes, algorithm.name, to_string(took), to_string(bound)));
  }
  KB_CHECK(took >= bound, "all_reduce of {} B took {}, less than the lower bound of {}", bytes,
           to_string(took), to_string(bound));
}

void AhbmBackend::close() {
  const auto residue = runtime::take_residue(
      torch_.simulation().machine(), runtime::QueueScope::all, std::nullopt, "the process group");
  if (residue) throw *residue;
}

void WorldCommunicator::barrier(const distributed::CollectiveCall& call) {
  if (caller_count_ == 1) return;  // nobody to wait for
  run(call, kIntercubeAllReduce, barrier_token(torch_, call.rank));
}

bool register_ahbm_backend() {
  return distributed::register_backend(
      "ahbm",
      [](const distributed::BackendInputs& inputs) -> std::unique_ptr<distributed::Backend> {
        const auto* own = dynamic_cast<const Config*>(inputs.config);
        if (own == nullptr && inputs.config != nullptr) {
          throw CollectiveError("KB-R002", "backend 'ahbm': its settings are not a ccl::Config");
        }
        return std::make_unique<AhbmBackend>(inputs.torch, own == nullptr ? Config() : *own);
      });
}

}  // namespace kernbench::ccl
