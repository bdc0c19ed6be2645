#include "benches/collectives/measured_collective.h"

#include <algorithm>
#include <numeric>

#include "ccl/lower_bound.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches {

namespace {

using distributed::Block;
using distributed::CollectiveKind;
using distributed::CollectiveRequest;
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
  Exchange(RuntimeContext& torch, const MeasuredInput& input)
      : torch_(torch), input_(input), exact_(input.blocks), members_(input.members) {
    if (members_.empty()) {
      members_.resize(static_cast<std::size_t>(torch.distributed.get_world_size()));
      std::iota(members_.begin(), members_.end(), 0);
    } else {
      group_ = torch.distributed.new_group(members_);
      members_ = group_.ranks();
    }
    KB_CHECK(members_.size() == static_cast<std::size_t>(input.blocks.ranks), "{} members, not {}",
             members_.size(), input.blocks.ranks);
    for (int rank = 0; rank < input.blocks.ranks; ++rank) tensors_.push_back(tensors_of(rank));
    if (torch.options().data) bring_blocks();
  }

  Time run();
  std::int64_t count_wrong() const;
  std::string_view algorithm() const;
  Time lower_bound() const;

 private:
  RankTensors tensors_of(int rank) const;
  Tensor make(int rank, std::int64_t rows) const;
  std::vector<Tensor> make_list(int rank) const;
  void bring_blocks();
  std::int64_t count_wrong(int rank, int first_block, const Tensor& x) const;
  void call(int rank) const;
  void send_and_receive(int rank, const RankTensors& own) const;
  CollectiveRequest request_of(int rank) const;
  std::vector<Block> blocks_of(const std::vector<Tensor>& tensors) const;
  bool is_root(int rank) const { return rank == input_.blocks.root; }

  RuntimeContext& torch_;
  const MeasuredInput& input_;
  const ExactBlocks exact_;
  std::vector<int> members_;          // global ranks, by group rank
  ProcessGroup group_;                // the default group if no members were named
  std::vector<RankTensors> tensors_;  // by group rank
};

// Tensors

Tensor Exchange::make(int rank, std::int64_t rows) const {
  torch_.ahbm.set_device(members_[static_cast<std::size_t>(rank)]);
  return torch_.empty({rows, input_.blocks.count},
                      {.dtype = input_.blocks.dtype, .dp = input_.placement});
}

// One tensor per rank's block.
std::vector<Tensor> Exchange::make_list(int rank) const {
  std::vector<Tensor> list;
  for (int other = 0; other < input_.blocks.ranks; ++other) list.push_back(make(rank, 1));
  return list;
}

RankTensors Exchange::tensors_of(int rank) const {
  const auto own = static_cast<std::size_t>(rank);
  RankTensors tensors;
  switch (input_.blocks.collective) {
    case MeasuredCollective::all_reduce:
    case MeasuredCollective::broadcast:
    case MeasuredCollective::reduce:
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

void Exchange::bring_blocks() {
  for (int rank = 0; rank < input_.blocks.ranks; ++rank) {
    int block = 0;
    for (Tensor& x : tensors_[static_cast<std::size_t>(rank)].gives) {
      std::vector<float> elements;
      for (std::int64_t row = 0; row < x.shape()[0]; ++row) {
        const std::vector<float> given = exact_.given(rank, block++);
        elements.insert(elements.end(), given.begin(), given.end());
      }
      x.copy_(RuntimeContext::tensor(elements, x.shape()));
    }
  }
}

std::int64_t Exchange::count_wrong() const {
  std::int64_t wrong = 0;
  for (int rank = 0; rank < input_.blocks.ranks; ++rank) {
    int block = 0;
    for (const Tensor& x : tensors_[static_cast<std::size_t>(rank)].takes) {
      wrong += count_wrong(rank, block, x);
      block += static_cast<int>(x.shape()[0]);
    }
  }
  return wrong;
}

// The number of wrong elements in all shards, including copies.
std::int64_t Exchange::count_wrong(int rank, int first_block, const Tensor& x) const {
  std::vector<std::vector<float>> expected;
  for (int row = 0; row < x.shape()[0]; ++row) {
    expected.push_back(exact_.taken(rank, first_block + row));
  }
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < x.shards().size(); ++i) {
    const ShardInfo& shard = x.shards()[i];
    if (shard.shape.numel() == 0) continue;
    const std::vector<float> found = x.shard_to_vector(i);
    for (std::size_t e = 0; e < found.size(); ++e) {
      const auto at = static_cast<std::int64_t>(e);
      const std::int64_t row = shard.offset[0] + at / shard.shape[1];
      const std::int64_t column = shard.offset[1] + at % shard.shape[1];
      const std::vector<float>& block = expected[static_cast<std::size_t>(row)];
      wrong += found[e] != block[static_cast<std::size_t>(column)];  // also if it is NaN
    }
  }
  return wrong;
}

// Calls

void Exchange::call(int rank) const {
  auto& dist = torch_.distributed;
  const RankTensors& own = tensors_[static_cast<std::size_t>(rank)];
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

Time Exchange::run() {
  Time first_call = Time::max();
  Time last_return{0};
  const auto worker = [&](int global_rank) {
    const auto found = std::ranges::find(members_, global_rank);
    if (found == members_.end()) return;
    torch_.ahbm.set_device(global_rank);
    const int rank = static_cast<int>(found - members_.begin());
    first_call = std::min(first_call, torch_.engine().now());
    for (int i = 0; i < input_.repetitions; ++i) call(rank);
    last_return = std::max(last_return, torch_.engine().now());
  };
  torch_.multiprocessing.spawn(worker, {}, torch_.distributed.get_world_size());
  return Time{(last_return - first_call).count() / input_.repetitions};
}

// Theory

// The one that ran last, since the exchange is what ran last.
std::string_view Exchange::algorithm() const {
  const auto& used = torch_.engine().algorithms_used();
  return used.empty() ? std::string_view() : used.back().algorithm;
}

std::vector<Block> Exchange::blocks_of(const std::vector<Tensor>& tensors) const {
  std::vector<Block> blocks;
  const std::int64_t count = input_.blocks.count;
  for (const Tensor& x : tensors) {
    for (std::int64_t row = 0; row < x.shape()[0]; ++row) blocks.push_back({x, row * count, count});
  }
  return blocks;
}

CollectiveRequest Exchange::request_of(int rank) const {
  const RankTensors& own = tensors_[static_cast<std::size_t>(rank)];
  CollectiveRequest request{kind_of(input_.blocks.collective), blocks_of(own.gives),
                            blocks_of(own.takes), input_.blocks.op, input_.blocks.root};
  if (input_.blocks.collective != MeasuredCollective::sendrecv) return request;
  const int next = (rank + 1) % input_.blocks.ranks;
  const Block sent = request.gives.front();
  request.gives.assign(tensors_.size(), {sent.tensor, 0, 0});
  request.gives[static_cast<std::size_t>(next)] = sent;
  return request;
}

Time Exchange::lower_bound() const {
  std::vector<CollectiveRequest> requests;
  for (int rank = 0; rank < input_.blocks.ranks; ++rank) requests.push_back(request_of(rank));
  return ccl::collective_lower_bound(torch_.topology(), members_, requests.front().kind, requests);
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
      break;
  }
  return CollectiveKind::all_to_all;
}

Measurement measure(RuntimeContext& torch, const MeasuredInput& input) {
  const bool has_data = torch.options().data;
  KB_CHECK(input.repetitions == 1 || !has_data, "{} repetitions with data", input.repetitions);
  torch.distributed.init_process_group(input.backend);
  Measurement measured;
  {
    Exchange exchange(torch, input);
    measured.time = exchange.run();
    if (has_data) measured.wrong = exchange.count_wrong();
    if (input.backend == "ahbm") {
      measured.algorithm = exchange.algorithm();
      measured.lower_bound = exchange.lower_bound();
    }
  }
  // With several repetitions, one may begin before the previous one has ended on all ranks.
  KB_CHECK(input.repetitions > 1 || measured.time >= measured.lower_bound.value_or(Time{0}),
           "{} took {}, less than the lower bound of {}", name_of(input.blocks.collective),
           to_string(measured.time), to_string(*measured.lower_bound));
  torch.distributed.destroy_process_group();
  return measured;
}

}  // namespace kernbench::benches
