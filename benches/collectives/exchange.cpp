#include "benches/collectives/exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ccl/backend/choice.h"
#include "ccl/backend/kernel_launcher.h"
#include "ccl/core/lower_bound.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"

namespace kernbench::benches::collectives {

using distributed::Block;
using distributed::CollectiveCall;
using distributed::P2POp;
using distributed::PointToPoint;

namespace {

ccl::Config make_config(const RuntimeContext& torch) {
  const auto* given = dynamic_cast<const ccl::Config*>(torch.options().ccl.get());
  return given == nullptr ? ccl::Config() : *given;
}

}  // namespace

Exchange::Exchange(RuntimeContext& torch, const MeasuredInput& input)
    : torch_(torch),
      input_(input),
      config_(make_config(torch)),
      layout_(is_shift() || config_.world_size()
                  ? std::optional<ccl::Layout>(std::in_place, torch.topology(), config_)
                  : std::nullopt),
      values_(torch.topology(), input.blocks, input.placement, layout_),
      members_(input.members) {
  if (!members_.empty()) {
    group_ = torch.distributed.new_group(members_);
    members_ = group_.ranks();
  } else {
    const int sips = torch.topology().system.sip_count;
    members_.resize(static_cast<std::size_t>(config_.world_size() ? 1 : sips));
    std::iota(members_.begin(), members_.end(), 0);
  }
  const sim::Folding& folding = simulation_of(torch).machine().folding();
  for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
    const int sip = members_[static_cast<std::size_t>(rank)];
    tensors_.push_back(folding.is_simulated(sip) ? make_tensors(rank) : RankTensors{});
  }
}

bool Exchange::is_of_all() const {
  const bool is_all_reduce = input_.blocks.collective == MeasuredCollective::all_reduce;
  return is_shift() || (is_all_reduce && group_.is_default());
}

std::optional<int> Exchange::rank_of(int global_rank) const {
  const auto found = std::ranges::find(members_, global_rank);
  if (found == members_.end()) return std::nullopt;
  return static_cast<int>(found - members_.begin());
}

// Tensors

const Exchange::RankTensors& Exchange::tensors(int rank) const {
  const int sip = members_[static_cast<std::size_t>(rank)];
  const auto stand_in = rank_of(simulation_of(torch_).machine().folding().first_of(sip));
  return tensors_[static_cast<std::size_t>(stand_in.value())];
}

TensorOptions Exchange::options() const {
  const TensorOptions own{.dtype = input_.blocks.dtype, .dp = input_.placement, .name = "ccl_in"};
  return config_.world_size() ? layout_->placement(own) : own;
}

Tensor Exchange::make(int rank, std::int64_t rows) const {
  torch_.ahbm.set_device(members_[static_cast<std::size_t>(rank)]);
  return torch_.empty({rows, config_.world_size().value_or(1) * input_.blocks.count}, options());
}

// One tensor per rank's block.
std::vector<Tensor> Exchange::make_list(int rank) const {
  std::vector<Tensor> list;
  for (int other = 0; other < input_.blocks.ranks; ++other) list.push_back(make(rank, 1));
  return list;
}

Exchange::RankTensors Exchange::make_tensors(int rank) const {
  RankTensors tensors;
  const auto& traits = distributed::traits_of(to_collective_kind(input_.blocks.collective));
  if (is_shift() || traits.is_in_place()) {
    tensors.gives = tensors.takes = {make(rank, 1)};
  } else if (input_.blocks.collective == MeasuredCollective::sendrecv) {
    tensors.gives = {make(rank, 1)};
    tensors.takes = {make(rank, 1)};
  } else if (traits.has_lists()) {
    tensors.gives = {make(rank, input_.blocks.ranks)};
    tensors.takes = {make(rank, input_.blocks.ranks)};
  } else {
    const bool gives_list = traits.gives == distributed::BlockCount::each;
    const bool has_list = traits.root == distributed::Root::none || is_root(rank);
    std::vector<Tensor>& list = gives_list ? tensors.gives : tensors.takes;
    std::vector<Tensor>& own = gives_list ? tensors.takes : tensors.gives;
    if (has_list) list = make_list(rank);
    own.push_back(input_.in_place && has_list ? list[static_cast<std::size_t>(rank)]
                                              : make(rank, 1));
  }
  return tensors;
}

// Calls

void Exchange::call(int rank) const {
  auto& dist = torch_.distributed;
  const RankTensors& own = tensors(rank);
  const auto& [gives, takes] = own;
  const ReduceOp op = input_.blocks.op;
  const int root = input_.blocks.root;
  switch (input_.blocks.collective) {
    case MeasuredCollective::all_reduce:
      dist.all_reduce(takes.front(), op, {.group = group_});
      break;
    case MeasuredCollective::broadcast:
      dist.broadcast(takes.front(), {.group = group_, .group_src = root});
      break;
    case MeasuredCollective::reduce:
      dist.reduce(takes.front(), {.group = group_, .group_dst = root}, op);
      break;
    case MeasuredCollective::all_gather:
      dist.all_gather(takes, gives.front(), {.group = group_});
      break;
    case MeasuredCollective::reduce_scatter:
      dist.reduce_scatter(takes.front(), gives, op, {.group = group_});
      break;
    case MeasuredCollective::all_to_all:
      dist.all_to_all_single(takes.front(), gives.front(), {}, {}, {.group = group_});
      break;
    case MeasuredCollective::gather:
      dist.gather(gives.front(), takes, {.group = group_, .group_dst = root});
      break;
    case MeasuredCollective::scatter:
      dist.scatter(takes.front(), gives, {.group = group_, .group_src = root});
      break;
    case MeasuredCollective::sendrecv:
      send_and_receive(rank, own);
      break;
    case MeasuredCollective::shift:
      launch_shift();
      break;
  }
}

void Exchange::send_and_receive(int rank, const RankTensors& own) const {
  const int ranks = input_.blocks.ranks;
  const int next = members_[static_cast<std::size_t>((rank + 1) % ranks)];
  const int previous = members_[static_cast<std::size_t>((rank + ranks - 1) % ranks)];
  const auto works = torch_.distributed.batch_isend_irecv(
      {P2POp{PointToPoint::isend, own.gives.front(), next, group_},
       P2POp{PointToPoint::irecv, own.takes.front(), previous, group_}});
  for (const auto& work : works) work.wait();
}

// All participants at once, since it is no call of torch.distributed.
void Exchange::launch_shift() const {
  const ccl::Algorithm& algorithm = config_.algorithm();
  std::vector<Tensor> tensors;
  for (const RankTensors& own : tensors_) tensors.push_back(own.takes.front());
  simulation_of(torch_).note_algorithm({algorithm.collective, algorithm.name, true});
  ccl::KernelLauncher(torch_, config_).launch(algorithm, tensors);
}

// Theory

// Returns the algorithm of the group's first rank, since other groups may run others; if nothing
// recorded it, the one that ran last.
std::optional<std::string> Exchange::last_algorithm() const {
  const auto events = simulation_of(torch_).flight_recorder().events(members_.front());
  if (!has_one_driver() && !events.empty() && !events.back().algorithm.empty()) {
    return std::string(events.back().algorithm);
  }
  const auto& used = torch_.engine().algorithms_used();
  if (used.empty()) return std::nullopt;
  return std::string(used.back().algorithm);
}

void Exchange::add_theory(Measurement& measured) const {
  if (!is_shift()) add_bounds(measured);  // of a shift none is known
  measured.algorithm = last_algorithm();
  if (is_of_all() && !measured.algorithm) {
    measured.algorithm = ccl::default_algorithm(config_).name;
  }
  if (!measured.algorithm) measured.algorithm = "none";  // one rank has nothing to exchange
  const ccl::Algorithm* const algorithm = ccl::find_algorithm(*measured.algorithm);
  if (algorithm != nullptr && input_.blocks.collective != MeasuredCollective::sendrecv) {
    add_model(measured, *algorithm);
  }
}

void Exchange::add_model(Measurement& measured, const ccl::Algorithm& algorithm) const {
  const Topology& topology = torch_.topology();
  const auto& [gives, takes] = tensors_.front();
  const Bytes bytes = input_.blocks.count * size_of(input_.blocks.dtype);
  const int root = input_.blocks.root;
  const Tensor& x = takes.empty() ? gives.front() : takes.front();
  const ccl::Moved moved = config_.world_size() ? ccl::Moved{.bytes = bytes, .root = root}
                                                : ccl::moved_of(topology, x, bytes, root);
  const auto kind = to_collective_kind(input_.blocks.collective);
  ccl::AlgorithmChoice choice =
      config_.world_size()
          ? ccl::AlgorithmChoice::of_all(topology, config_)
          : ccl::AlgorithmChoice(topology, config_, ccl::shape_of_sips(topology, members_),
                                 members_, "default_pg");
  if (config_.is_auto() && is_of_all()) measured.why = choice.describe(kind, moved);
  measured.model = choice.time_of(algorithm, kind, moved);
  if (algorithm.closed_form != nullptr) {
    measured.model = algorithm.closed_form(
        {topology, input_.placement, input_.blocks.count, input_.blocks.dtype, config_});
  }
  if (!measured.model) return;
  measured.form = algorithm.form;
  if (config_.world_size()) return;
  const ccl::Algorithm& best = choice.best(kind, moved);
  const std::optional<Time> best_time = choice.time_of(best, kind, moved);
  if (*best_time >= *measured.model) return;
  measured.faster = best.name;
  measured.faster_model = best_time;
}

std::vector<Block> Exchange::list_blocks(const std::vector<Tensor>& tensors) const {
  std::vector<Block> blocks;
  const std::int64_t count = input_.blocks.count;
  for (const Tensor& x : tensors) {
    for (std::int64_t row = 0; row < x.shape()[0]; ++row) blocks.push_back({x, row * count, count});
  }
  return blocks;
}

CollectiveCall Exchange::make_call(int rank) const {
  const RankTensors& own = tensors(rank);
  CollectiveCall made{.kind = to_collective_kind(input_.blocks.collective),
                      .gives = list_blocks(own.gives),
                      .takes = list_blocks(own.takes),
                      .op = input_.blocks.op,
                      .root = input_.blocks.root};
  if (input_.blocks.collective != MeasuredCollective::sendrecv) return made;
  const int next = (rank + 1) % input_.blocks.ranks;
  const Block sent = made.gives.front();
  made.gives.assign(tensors_.size(), {.tensor = sent.tensor});
  made.gives[static_cast<std::size_t>(next)] = sent;
  return made;
}

void Exchange::add_bounds(Measurement& measured) const {
  const BlocksInput& blocks = input_.blocks;
  const Topology& topology = torch_.topology();
  if (layout_) {
    if (blocks.collective != MeasuredCollective::all_reduce)
      return;  // of PEs no other one is known
    measured.lower_bound = ccl::pe_all_reduce_lower_bound(topology, blocks.ranks, blocks.bytes());
    // The driver's tensor lies on all PEs, and the bound of memory is that of one SIP.
    const bool is_on_one_sip = blocks.ranks <= topology.cube_count() * topology.pe_count();
    if (blocks.ranks < 2 || !is_on_one_sip) return;
    CollectiveCall call = make_call(0);
    call.gives = call.takes = {distributed::whole(tensors_.front().takes.front())};
    measured.memory_bound = ccl::memory_lower_bound(topology, {&call, 1});
    return;
  }
  std::vector<CollectiveCall> calls;
  for (int rank = 0; rank < blocks.ranks; ++rank) {
    calls.push_back(make_call(rank));
    calls.back().rank = rank;
  }
  measured.lower_bound = ccl::collective_lower_bound(topology, members_, calls.front().kind, calls);
  measured.memory_bound = ccl::memory_lower_bound(topology, calls);
}

}  // namespace kernbench::benches::collectives
