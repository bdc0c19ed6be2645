#include "benches/collectives/measured_collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "benches/collectives/collective_values.h"
#include "ccl/backend/choice.h"
#include "ccl/backend/kernel_launcher.h"
#include "ccl/core/lower_bound.h"
#include "runtime/simulation/simulation.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

using distributed::Block;
using distributed::CollectiveCall;
using distributed::CollectiveKind;
using distributed::P2POp;
using distributed::PointToPoint;
using distributed::ProcessGroup;

// A rank's inputs and outputs: the rows of these tensors, in order, are its blocks.
struct RankTensors {
  std::vector<Tensor> gives;
  std::vector<Tensor> takes;
};

// A collective on the tensors of its ranks.
class Exchange {
 public:
  Exchange(RuntimeContext& torch, const MeasuredInput& input);

  Measurement measure();

 private:
  bool is_shift() const { return input_.blocks.collective == MeasuredCollective::shift; }
  bool is_root(int rank) const { return rank == input_.blocks.root; }
  // True if it is one over all ranks, whose closed form an algorithm may know.
  bool is_of_all() const;

  const RankTensors& tensors(int rank) const { return tensors_[static_cast<std::size_t>(rank)]; }
  TensorOptions options() const;
  Tensor make(int rank, std::int64_t rows) const;
  std::vector<Tensor> make_list(int rank) const;
  RankTensors make_tensors(int rank) const;

  void on_each_rank(const std::function<void(int rank)>& act);
  void call(int rank) const;
  void send_and_receive(int rank, const RankTensors& own) const;
  void launch_shift() const;

  void add_theory(Measurement& measured) const;
  CollectiveCall make_call(int rank) const;
  std::vector<Block> list_blocks(const std::vector<Tensor>& tensors) const;
  Time lower_bound() const;

  RuntimeContext& torch_;
  const MeasuredInput& input_;
  const ccl::Config config_;
  const std::optional<ccl::Layout> layout_;  // if participants are PEs, or those of a shift
  const CollectiveValues values_;
  std::vector<int> members_;          // global ranks, by group rank; {0}: one driver for all
  ProcessGroup group_;                // the default group if no members were named
  std::vector<RankTensors> tensors_;  // by group rank
};

ccl::Config config_of(const RuntimeContext& torch) {
  const auto* given = dynamic_cast<const ccl::Config*>(torch.options().ccl.get());
  return given == nullptr ? ccl::Config() : *given;
}

Exchange::Exchange(RuntimeContext& torch, const MeasuredInput& input)
    : torch_(torch),
      input_(input),
      config_(config_of(torch)),
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
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    tensors_.push_back(make_tensors(static_cast<int>(rank)));
  }
}

bool Exchange::is_of_all() const {
  const bool is_all_reduce = input_.blocks.collective == MeasuredCollective::all_reduce;
  return is_shift() || (is_all_reduce && group_.is_default());
}

// Tensors

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

RankTensors Exchange::make_tensors(int rank) const {
  const auto own = static_cast<std::size_t>(rank);
  RankTensors tensors;
  switch (input_.blocks.collective) {
    case MeasuredCollective::all_reduce:
    case MeasuredCollective::broadcast:
    case MeasuredCollective::reduce:
    case MeasuredCollective::shift:
      tensors.gives = tensors.takes = {make(rank, 1)};
      break;
    case MeasuredCollective::all_gather:
      tensors.takes = make_list(rank);
      tensors.gives = {input_.in_place ? tensors.takes[own] : make(rank, 1)};
      break;
    case MeasuredCollective::gather:
      if (is_root(rank)) tensors.takes = make_list(rank);
      tensors.gives = {input_.in_place && is_root(rank) ? tensors.takes[own] : make(rank, 1)};
      break;
    case MeasuredCollective::reduce_scatter:
      tensors.gives = make_list(rank);
      tensors.takes = {input_.in_place ? tensors.gives[own] : make(rank, 1)};
      break;
    case MeasuredCollective::scatter:
      if (is_root(rank)) tensors.gives = make_list(rank);
      tensors.takes = {input_.in_place && is_root(rank) ? tensors.gives[own] : make(rank, 1)};
      break;
    case MeasuredCollective::all_to_all:
      tensors.gives = {make(rank, input_.blocks.ranks)};
      tensors.takes = {make(rank, input_.blocks.ranks)};
      break;
    case MeasuredCollective::sendrecv:
      tensors.gives = {make(rank, 1)};
      tensors.takes = {make(rank, 1)};
      break;
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
  torch_.simulation().note_algorithm({algorithm.collective, algorithm.name, true});
  ccl::KernelLauncher(torch_, config_).launch(algorithm, tensors);
}

// The ranks of torch.distributed act at the same time, each on its own device.
void Exchange::on_each_rank(const std::function<void(int rank)>& act) {
  if (layout_) {
    for (std::size_t rank = 0; rank < tensors_.size(); ++rank) act(static_cast<int>(rank));
    return;
  }
  const auto worker = [&](int global_rank) {
    const auto found = std::ranges::find(members_, global_rank);
    if (found == members_.end()) return;
    torch_.ahbm.set_device(global_rank);
    act(static_cast<int>(found - members_.begin()));
  };
  torch_.multiprocessing.spawn(worker, {}, torch_.distributed.get_world_size());
}

Measurement Exchange::measure() {
  const bool has_data = torch_.options().data;
  const auto bring = [&](int rank) {
    if (has_data) values_.bring(rank, tensors(rank).gives);
  };
  // Ranks that bring equally much are ready at the same time, and call at once.
  const bool are_alike = !spec_of(input_.blocks.collective).has_root && !is_shift();
  if (!are_alike) on_each_rank(bring);
  Time first_call = Time::max();
  Time last_return{0};
  const auto timed = [&](int rank) {
    if (are_alike) bring(rank);
    first_call = std::min(first_call, torch_.engine().now());
    for (int i = 0; i < input_.repetitions; ++i) call(rank);
    torch_.ahbm.synchronize();
    last_return = std::max(last_return, torch_.engine().now());
  };
  is_shift() ? timed(0) : on_each_rank(timed);
  Measurement measured;
  measured.time = Time{(last_return - first_call).count() / input_.repetitions};
  measured.critical = torch_.engine().critical_pe_exec();
  if (has_data) {
    measured.wrong = 0;
    for (std::size_t rank = 0; rank < tensors_.size(); ++rank) {
      *measured.wrong += values_.count_wrong(static_cast<int>(rank), tensors_[rank].takes);
    }
  }
  if (input_.backend == "ahbm") add_theory(measured);
  return measured;
}

// Theory

void Exchange::add_theory(Measurement& measured) const {
  if (!is_shift()) measured.lower_bound = lower_bound();  // of a shift none is known
  // The one that ran last, since the exchange is what ran last.
  const auto& used = torch_.engine().algorithms_used();
  if (!used.empty()) measured.algorithm = used.back().algorithm;
  if (!is_of_all()) return;
  const Topology& topology = torch_.topology();
  const ccl::Algorithm* algorithm =
      used.empty() ? &ccl::default_algorithm(config_) : ccl::find_algorithm(used.back().algorithm);
  measured.algorithm = algorithm->name;
  if (config_.is_auto()) {
    const int lanes =
        config_.world_size() ? 1 : static_cast<int>(tensors_.front().takes.front().shards().size());
    measured.why = ccl::AlgorithmChoice::of_all(topology, config_)
                       .describe(distributed::CollectiveKind::all_reduce,
                                 input_.blocks.count * size_of(input_.blocks.dtype), lanes);
  }
  if (algorithm->closed_form == nullptr) return;
  measured.closed_form = algorithm->closed_form(
      {topology, input_.placement, input_.blocks.count, input_.blocks.dtype, config_});
  if (!measured.closed_form) return;
  measured.form = algorithm->form;
  if (config_.world_size()) measured.form += ", plus n loaded and stored";
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
  CollectiveCall made{.kind = kind_of(input_.blocks.collective),
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

Time Exchange::lower_bound() const {
  const BlocksInput& blocks = input_.blocks;
  if (layout_) {
    return ccl::pe_all_reduce_lower_bound(torch_.topology(), blocks.ranks, blocks.bytes());
  }
  std::vector<CollectiveCall> calls;
  for (int rank = 0; rank < blocks.ranks; ++rank) calls.push_back(make_call(rank));
  return ccl::collective_lower_bound(torch_.topology(), members_, calls.front().kind, calls);
}

}  // namespace

CollectiveKind kind_of(MeasuredCollective collective) {
  switch (collective) {
    case MeasuredCollective::all_reduce:
      return CollectiveKind::all_reduce;
    case MeasuredCollective::all_gather:
      return CollectiveKind::all_gather;
    case MeasuredCollective::reduce_scatter:
      return CollectiveKind::reduce_scatter;
    case MeasuredCollective::broadcast:
      return CollectiveKind::broadcast;
    case MeasuredCollective::reduce:
      return CollectiveKind::reduce;
    case MeasuredCollective::gather:
      return CollectiveKind::gather;
    case MeasuredCollective::scatter:
      return CollectiveKind::scatter;
    case MeasuredCollective::all_to_all:
    case MeasuredCollective::sendrecv:  // a rank has a block for the next rank only
    case MeasuredCollective::shift:
      break;
  }
  return CollectiveKind::all_to_all;
}

DPPolicy default_placement(const ccl::Config& config) {
  if (config.participants() == ccl::Participants::one_pe_per_sip) return DPPolicy::on_one_pe();
  const bool adds_up = config.is_auto() || config.algorithm().reduces_in_sip;
  return {.cube = adds_up ? Shard::partial : Shard::column_wise, .pe = Shard::column_wise};
}

MeasuredInput input_for(const ccl::Config& config, const Topology& topology) {
  const std::string_view collective =
      config.is_auto() ? "all_reduce" : config.algorithm().collective;
  if (collective != "all_reduce" && collective != "shift") {
    throw CollectiveError("KB-C012",
                          fmt::format("'{}' is a {}, and this bench can check an all_reduce or a "
                                      "shift; write a bench of your own for it",
                                      config.algorithm_name(), collective));
  }
  MeasuredInput input;
  input.blocks.collective =
      collective == "shift" ? MeasuredCollective::shift : MeasuredCollective::all_reduce;
  input.blocks.ranks = config.world_size().value_or(topology.system.sip_count);
  input.in_place = true;
  input.placement = default_placement(config);
  return input;
}

Measurement measure(RuntimeContext& torch, const MeasuredInput& input) {
  KB_CHECK(input.repetitions == 1 || !torch.options().data, "{} repetitions with data",
           input.repetitions);
  const bool has_group = input.blocks.collective != MeasuredCollective::shift;
  if (has_group) torch.distributed.init_process_group(input.backend);
  const Measurement measured = Exchange(torch, input).measure();
  if (has_group) torch.distributed.destroy_process_group();
  // With several repetitions, one may begin before the previous one has ended on all ranks.
  KB_CHECK(input.repetitions > 1 || measured.time >= measured.lower_bound.value_or(Time{0}),
           "{} of {} B took {}, less than the lower bound of {}", name_of(input.blocks.collective),
           input.blocks.bytes(), to_string(measured.time), to_string(*measured.lower_bound));
  return measured;
}

}  // namespace kernbench::benches
