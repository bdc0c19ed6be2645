#include "test/ccl/differential/program_runner.h"

#include <map>

#include "runtime/distributed/local_backend.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/torch/run_ranks.h"

namespace kernbench::test::differential {

namespace {

using distributed::PointToPoint;
using distributed::ProcessGroup;
using distributed::Work;

Elements elements_of(const Tensor& x) {
  const std::vector<float> read = x.to_vector();
  return {read.begin(), read.end()};
}

// The number of elements on each PE that runs a kernel, by the PE's number.
using Counts = std::vector<std::int64_t>;

void store(tl::Context& tl, tl::Pointer x, const Counts& counts, std::int64_t rows, int value) {
  const std::int64_t count = rows * counts[static_cast<std::size_t>(tl.program_id())];
  tl.store(x, tl.full({count}, value, DType::f32));
}

void move(tl::Context& tl, tl::Pointer from, tl::Pointer to, const Counts& counts, int value) {
  const std::int64_t count = counts[static_cast<std::size_t>(tl.program_id())];
  tl.store(to, tl.load(from, {count}, DType::f32) + value);
}

struct RankTensors {
  std::vector<Tensor> all;
  Tensor matrix;  // its rows are two of the tensors
};

RankTensors make_tensors(const RuntimeContext& torch, const DPPolicy& dp, int rank,
                         std::int64_t elements) {
  RankTensors tensors;
  tensors.matrix = torch.zeros({2, elements}, {.dp = dp});
  for (int tensor = 0; tensor < kTensors; ++tensor) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < elements; ++i) {
      values.push_back(static_cast<float>(initial(rank, tensor, i)));
    }
    const int row = tensor - kFirstRow;
    tensors.all.push_back(row == 0 || row == 1 ? tensors.matrix[row]
                                               : torch.zeros({elements}, {.dp = dp}));
    tensors.all.back().copy_(RuntimeContext::tensor(values, {elements}));
  }
  return tensors;
}

// One rank's calls.
class Rank {
 public:
  Rank(RuntimeContext& torch, const std::vector<ProcessGroup>& groups, const Program& program,
       int rank, const RankTensors& tensors, std::vector<Elements>& seen)
      : torch_(torch),
        groups_(groups),
        program_(program),
        rank_(rank),
        tensors_(tensors.all),
        matrix_(tensors.matrix),
        seen_(seen) {
    for (const ShardInfo& shard : tensors_.front().shards()) {
      if (shard.shape.numel() > 0) counts_.push_back(shard.shape.numel());
    }
  }

  // Runs the rank.  If a call is refused, enters it in `first` unless another rank's is there.
  void run(std::optional<Refusal>& first) {
    for (const int number : program_.orders[static_cast<std::size_t>(rank_)]) {
      try {
        take(number);
      } catch (const Error& error) {
        if (!first) first = {rank_, number, error.code()};
        throw;
      }
    }
  }

 private:
  void take(int number) {
    const Step& step = program_.steps[static_cast<std::size_t>(number)];
    const Call& call = *step.calls[static_cast<std::size_t>(rank_)];
    if (step.kind <= Kind::barrier) {
      const Work work = collective(step, call);
      if (work) works_[number] = {work};
    } else if (step.kind <= Kind::exchange) {
      works_[number] = message(step, call, number);
    } else {
      alone(step, call);
    }
  }

  Tensor tensor(const Operand& operand) const {
    const Tensor& x = tensors_[static_cast<std::size_t>(operand.tensor)];
    if (operand.view == Operand::View::detached) return x.detach();
    return operand.view == Operand::View::reshaped ? reshape(x, x.shape()) : x;
  }
  // One tensor, or the matrix with both rows.
  Tensor tensor_or_rows(const std::vector<Operand>& operands) const {
    return operands.size() == 1 ? tensor(operands[0]) : matrix_;
  }
  std::vector<Tensor> list(const std::vector<Operand>& operands) const {
    std::vector<Tensor> tensors;
    for (const Operand& operand : operands) tensors.push_back(tensor(operand));
    return tensors;
  }

  Work collective(const Step& step, const Call& call) {
    auto& dist = torch_.distributed;
    const bool is_async = call.is_async;
    const ProcessGroup& group = groups_[static_cast<std::size_t>(step.group)];
    const distributed::CollectiveOptions options{.group = group, .async_op = is_async};
    switch (step.kind) {
      case Kind::all_reduce:
        return dist.all_reduce(tensor(call.gives[0]), step.op, options);
      case Kind::broadcast:
        return dist.broadcast(tensor(call.gives[0]), step.root, options);
      case Kind::reduce:
        return dist.reduce(tensor(call.gives[0]), step.root, step.op, options);
      case Kind::all_gather:
        if (are_rows(call.takes)) {
          return dist.all_gather_into_tensor(matrix_, tensor(call.gives[0]), options);
        }
        return dist.all_gather(list(call.takes), tensor(call.gives[0]), options);
      case Kind::reduce_scatter:
        if (are_rows(call.gives)) {
          return dist.reduce_scatter_tensor(tensor(call.takes[0]), matrix_, step.op, options);
        }
        return dist.reduce_scatter(tensor(call.takes[0]), list(call.gives), step.op, options);
      case Kind::all_to_all:
        return dist.all_to_all(list(call.takes), list(call.gives), options);
      case Kind::gather:
        return dist.gather(tensor(call.gives[0]), list(call.takes),
                           {.dst = step.root, .group = group, .async_op = is_async});
      case Kind::scatter:
        return dist.scatter(tensor(call.takes[0]), list(call.gives),
                            {.src = step.root, .group = group, .async_op = is_async});
      default:
        return dist.barrier(options);
    }
  }

  std::vector<Work> message(const Step& step, const Call& call, int tag) {
    auto& dist = torch_.distributed;
    const int other = rank_ == step.root ? step.peer : step.root;
    const ProcessGroup& group = groups_[static_cast<std::size_t>(step.group)];
    if (step.kind == Kind::exchange) {
      std::vector<distributed::P2POp> ops = {
          {PointToPoint::isend, tensor(call.gives[0]), other, group, tag},
          {PointToPoint::irecv, tensor(call.takes[0]), other, group, tag}};
      if (step.value % 2 == 0) std::swap(ops[0], ops[1]);
      return dist.batch_isend_irecv(ops);
    }
    if (rank_ == step.root) {
      if (call.is_async)
        return {dist.isend(tensor(call.gives[0]), other, {.group = group, .tag = tag})};
      dist.send(tensor(call.gives[0]), other, {.group = group, .tag = tag});
      return {};
    }
    if (call.is_async)
      return {dist.irecv(tensor(call.takes[0]), other, {.group = group, .tag = tag})};
    dist.recv(tensor(call.takes[0]), other, {.group = group, .tag = tag});
    return {};
  }

  void alone(const Step& step, const Call& call) {
    switch (step.kind) {
      case Kind::store:
        return torch_.launch("store", store, tensor_or_rows(call.takes), counts_,
                             static_cast<std::int64_t>(call.takes.size()), step.value);
      case Kind::move:
        return torch_.launch("move", move, tensor(call.gives[0]), tensor(call.takes[0]), counts_,
                             step.value);
      case Kind::add:
        return seen_.push_back(elements_of(tensor(call.gives[0]) + tensor(call.gives[1])));
      case Kind::write: {
        Tensor target = tensor_or_rows(call.takes);
        const std::vector<float> values(static_cast<std::size_t>(target.numel()),
                                        static_cast<float>(step.value));
        target.copy_(RuntimeContext::tensor(values, target.shape()));
        return;
      }
      case Kind::copy:
        tensor(call.takes[0]).copy_(tensor(call.gives[0]));
        return;
      case Kind::read:
        return seen_.push_back(elements_of(tensor_or_rows(call.gives)));
      default:
        for (const Work& work : works_[step.waits_for]) {
          while (call.polls && !work.is_completed()) {
          }
          if (!call.polls) work.wait();
        }
    }
  }

  RuntimeContext& torch_;
  const std::vector<ProcessGroup>& groups_;
  const Program& program_;
  const int rank_;
  const std::vector<Tensor>& tensors_;
  const Tensor matrix_;
  std::vector<Elements>& seen_;
  Counts counts_;
  std::map<int, std::vector<Work>> works_;  // by step
};

}  // namespace

Machine::Machine(const Topology& topology, const std::string& backend, const DPPolicy& dp)
    : torch_(topology), dp_(dp) {
  torch_.distributed.init_process_group(backend);
  for (const std::vector<int>& ranks : groups_of(topology.system.sip_count)) {
    groups_.push_back(groups_.empty() ? ProcessGroup()
                                      : torch_.distributed.new_group(ranks, {.sort_ranks = false}));
  }
}

Machine::End Machine::run(const Program& program) {
  End end;
  const auto ranks = static_cast<std::size_t>(program.ranks);
  std::vector<RankTensors> tensors(ranks);
  end.outcome.seen.resize(ranks);
  try {
    run_on_devices(torch_, program.ranks, [&](int rank) {
      RankTensors& own = tensors[static_cast<std::size_t>(rank)];
      own = make_tensors(torch_, dp_, rank, program.elements);
      Rank(torch_, groups_, program, rank, own, end.outcome.seen[static_cast<std::size_t>(rank)])
          .run(end.refusal);
    });
  } catch (const Error& error) {
    end.text = error.what();
    return end;
  }
  for (const RankTensors& own : tensors) {
    auto& read = end.outcome.tensors.emplace_back();
    for (const Tensor& tensor : own.all) read.push_back(elements_of(tensor));
  }
  return end;
}

}  // namespace kernbench::test::differential
