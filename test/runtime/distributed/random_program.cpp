#include "test/runtime/distributed/random_program.h"

#include <algorithm>
#include <numeric>

namespace kernbench::test {

namespace {

using distributed::ProcessGroup;
using distributed::Work;
using Floats = std::vector<float>;
using Kind = Step::Kind;

int below(std::mt19937& random, int limit) {
  return static_cast<int>(random() % static_cast<std::uint32_t>(limit));
}

// Small integers, so that any reduction of six is exact: -2 to 2.
Floats elements_of(const Step& step, int rank, std::int64_t count) {
  Floats elements;
  std::uint32_t state = step.seed + 7919U * static_cast<std::uint32_t>(rank);
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    elements.push_back(static_cast<float>(static_cast<int>(state >> 24) % 5 - 2));
  }
  return elements;
}

// How many elements a rank gives.
std::int64_t given_count(const Step& step, std::int64_t members) {
  const bool gives_each = step.kind == Kind::reduce_scatter || step.kind == Kind::all_to_all ||
                          step.kind == Kind::scatter;
  return gives_each ? step.count * members : step.count;
}

float reduced(ReduceOp op, float a, float b) {
  switch (op) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    default:
      return a + b;
  }
}

Floats slice(const Floats& all, std::int64_t index, std::int64_t count) {
  return {all.begin() + index * count, all.begin() + (index + 1) * count};
}

Floats reference(const Step& step, const std::vector<int>& members, int rank) {
  std::vector<Floats> given;
  const auto size = static_cast<std::int64_t>(members.size());
  for (const int member : members) {
    given.push_back(elements_of(step, member, given_count(step, size)));
  }
  const auto position = std::ranges::find(members, rank) - members.begin();
  const auto root = std::ranges::find(members, step.root) - members.begin();
  const Floats& own = given[static_cast<std::size_t>(position)];
  const Floats& of_root = given[static_cast<std::size_t>(root)];
  Floats sum = given.front();
  for (std::size_t i = 1; i < given.size(); ++i) {
    std::ranges::transform(sum, given[i], sum.begin(),
                           [&](float a, float b) { return reduced(step.op, a, b); });
  }
  for (float& element : sum) {
    if (step.op == ReduceOp::avg) element /= static_cast<float>(size);
  }
  Floats all;
  switch (step.kind) {
    case Kind::all_reduce:
      return sum;
    case Kind::broadcast:
      return of_root;
    case Kind::reduce:
      return rank == step.root ? sum : own;
    case Kind::reduce_scatter:
      return slice(sum, position, step.count);
    case Kind::scatter:
      return slice(of_root, position, step.count);
    case Kind::all_to_all:
      for (const Floats& each : given) {
        const Floats part = slice(each, position, step.count);
        all.insert(all.end(), part.begin(), part.end());
      }
      return all;
    case Kind::gather:
      if (rank != step.root) return {};
      [[fallthrough]];
    case Kind::all_gather:
      for (const Floats& each : given) all.insert(all.end(), each.begin(), each.end());
      return all;
    case Kind::message:
      return of_root;
    case Kind::barrier:
      break;
  }
  return {};
}

// One rank's calls.
class Runner {
 public:
  Runner(RuntimeContext& torch, int rank) : torch_(torch), rank_(rank) {}

  Tensor tensor(const Floats& elements) {
    const Shape shape{static_cast<std::int64_t>(elements.size())};
    Tensor made = torch_.zeros(shape, {.dp = DPPolicy::on_one_pe()});
    made.copy_(RuntimeContext::tensor(elements, shape));
    return made;
  }
  Tensor zeros(std::int64_t count) { return torch_.zeros({count}, {.dp = DPPolicy::on_one_pe()}); }

  // The tensors that hold the result afterwards.
  std::vector<Tensor> run(const Step& step, const std::vector<int>& members,
                          const ProcessGroup& group);
  void wait() {
    for (const Work& work : works_) work.wait();
  }

 private:
  std::vector<Tensor> run_message(const Step& step, const ProcessGroup& group);
  void keep(const Work& work) {
    if (work) works_.push_back(work);
  }

  RuntimeContext& torch_;
  const int rank_;
  std::vector<Work> works_;
};

std::vector<Tensor> Runner::run_message(const Step& step, const ProcessGroup& group) {
  auto& dist = torch_.distributed;
  if (rank_ == step.root) {
    const Tensor x = tensor(elements_of(step, rank_, step.count));
    if (step.is_async) {
      keep(dist.isend(x, step.peer, {.group = group, .tag = step.tag}));
    } else {
      dist.send(x, step.peer, {.group = group, .tag = step.tag});
    }
    return {x};
  }
  const Tensor x = zeros(step.count);
  if (step.is_async) {
    keep(dist.irecv(x, step.root, {.group = group, .tag = step.tag}));
  } else {
    dist.recv(x, step.root, {.group = group, .tag = step.tag});
  }
  return {x};
}

std::vector<Tensor> Runner::run(const Step& step, const std::vector<int>& members,
                                const ProcessGroup& group) {
  auto& dist = torch_.distributed;
  const auto size = static_cast<std::int64_t>(members.size());
  const distributed::CollectiveOptions options{.group = group, .async_op = step.is_async};
  if (step.kind == Kind::message) return run_message(step, group);
  if (step.kind == Kind::barrier) return keep(dist.barrier(options)), std::vector<Tensor>{};
  const Tensor x = tensor(elements_of(step, rank_, given_count(step, size)));
  switch (step.kind) {
    case Kind::all_reduce:
      keep(dist.all_reduce(x, step.op, options));
      return {x};
    case Kind::broadcast:
      keep(dist.broadcast(x, step.root, options));
      return {x};
    case Kind::reduce:
      keep(dist.reduce(x, step.root, step.op, options));
      return {x};
    case Kind::all_gather: {
      const Tensor out = zeros(step.count * size);
      keep(dist.all_gather_into_tensor(out, x, options));
      return {out};
    }
    case Kind::reduce_scatter: {
      const Tensor out = zeros(step.count);
      keep(dist.reduce_scatter_tensor(out, x, step.op, options));
      return {out};
    }
    case Kind::all_to_all: {
      const Tensor out = zeros(step.count * size);
      keep(dist.all_to_all_single(out, x, {}, {}, options));
      return {out};
    }
    case Kind::gather: {
      std::vector<Tensor> list;
      for (std::int64_t i = 0; i < size && rank_ == step.root; ++i) {
        list.push_back(zeros(step.count));
      }
      keep(dist.gather(x, list, {.dst = step.root, .group = group, .async_op = step.is_async}));
      return list;
    }
    default: {
      std::vector<Tensor> list;
      const Floats all = elements_of(step, rank_, step.count * size);
      for (std::int64_t i = 0; i < size && rank_ == step.root; ++i) {
        list.push_back(tensor(slice(all, i, step.count)));
      }
      const Tensor out = zeros(step.count);
      keep(dist.scatter(out, list, {.src = step.root, .group = group, .async_op = step.is_async}));
      return {out};
    }
  }
}

}  // namespace

bool RandomProgram::is_member(std::size_t group, int rank) const {
  return std::ranges::find(groups[group], rank) != groups[group].end();
}

RandomProgram make_program(std::mt19937& random, int ranks, const ProgramOptions& options) {
  RandomProgram program;
  program.ranks = ranks;
  program.groups.emplace_back(static_cast<std::size_t>(ranks));
  std::iota(program.groups.front().begin(), program.groups.front().end(), 0);
  for (int i = options.has_groups ? below(random, 4) : 0; i > 0; --i) {
    std::vector<int> members = program.groups.front();
    std::ranges::shuffle(members, random);
    members.resize(static_cast<std::size_t>(1 + below(random, ranks)));
    std::ranges::sort(members);
    program.groups.push_back(members);
  }
  const int count = 1 + below(random, 30);
  for (int i = 0; i < count; ++i) {
    Step step;
    step.kind = static_cast<Kind>(below(random, options.has_messages ? 10 : 9));
    step.group = static_cast<std::size_t>(below(random, static_cast<int>(program.groups.size())));
    const std::vector<int>& members = program.groups[step.group];
    const int size = static_cast<int>(members.size());
    if (step.kind == Kind::message && size < 2) step.kind = Kind::barrier;
    constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min,
                                 ReduceOp::max};
    step.op = kOps[below(random, 5)];
    const int root = below(random, size);
    step.root = members[static_cast<std::size_t>(root)];
    if (size > 1) {
      step.peer = members[static_cast<std::size_t>((root + 1 + below(random, size - 1)) % size)];
    }
    step.tag = below(random, 2);
    step.count = 1 + below(random, 5);
    if (step.kind == Kind::message) step.count = 3;
    step.seed = static_cast<std::uint32_t>(random());
    step.is_async = options.has_async && below(random, 3) == 0;
    program.steps.push_back(step);
  }
  return program;
}

bool RandomProgram::takes_part(const Step& step, int rank) const {
  if (step.kind == Kind::message) return rank == step.root || rank == step.peer;
  return is_member(step.group, rank);
}

History expected_history(const RandomProgram& program, int rank) {
  History history;
  for (const Step& step : program.steps) {
    history.emplace_back();
    if (program.takes_part(step, rank)) {
      history.back() = reference(step, program.groups[step.group], rank);
    }
  }
  return history;
}

History run_rank(RuntimeContext& torch, const RandomProgram& program,
                 const std::vector<Step>& steps, int rank) {
  std::vector<ProcessGroup> groups(1);
  for (std::size_t i = 1; i < program.groups.size(); ++i) {
    groups.push_back(torch.distributed.new_group(std::span(program.groups[i])));
  }
  Runner runner(torch, rank);
  std::vector<std::vector<Tensor>> results;
  for (const Step& step : steps) {
    results.emplace_back();
    if (!program.takes_part(step, rank)) continue;
    results.back() = runner.run(step, program.groups[step.group], groups[step.group]);
  }
  runner.wait();
  History history;
  for (const std::vector<Tensor>& tensors : results) {
    history.emplace_back();
    for (const Tensor& tensor : tensors) {
      const Floats part = tensor.to_vector();
      history.back().insert(history.back().end(), part.begin(), part.end());
    }
  }
  return history;
}

}  // namespace kernbench::test
