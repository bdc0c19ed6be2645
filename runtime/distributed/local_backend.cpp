#include "runtime/distributed/local_backend.h"

#include "runtime/simulation/rendezvous.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/logical_value.h"
#include "sim_engine/base/add_in_pairs.h"

namespace kernbench::distributed {

namespace {

using Calls = std::vector<const CollectiveCall*>;  // by group rank

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(runtime::Simulation& simulation, int size)
      : simulation_(simulation), size_(size) {}

  void run(const CollectiveCall& call) override;
  void transfer(std::uint64_t, const Block& source, const Block& target) override {
    store(target, load(source));
  }
  void give_up(std::uint64_t operation, const std::exception_ptr& why) override {
    meetings_.give_up(operation, why);
  }
  void abandon() override { meetings_.clear(); }

 private:
  void exchange(const Calls& ranks);
  void exchange_blocks(const Calls& ranks);
  sim::Value reduce(const Calls& ranks, std::size_t block);
  sim::Value divided(const sim::Value& value, double divisor);

  sim::Value load(const Block& block) const {
    return runtime::load_block(*block.tensor.storage(), block.first, block.count);
  }
  static void store(const Block& block, const sim::Value& value) {
    runtime::store_block(*block.tensor.storage(), block.first, value);
  }

  runtime::Simulation& simulation_;
  const int size_;
  runtime::Meetings<const CollectiveCall*> meetings_;
};

// All callers wait until the last one has done the work, so pointers to their calls stay valid.
void LocalCommunicator::run(const CollectiveCall& call) {
  const auto meeting = meetings_.arrive(call.operation, size_, call.rank, &call);
  if (meeting->is_complete()) {
    exchange(meeting->all());
  } else {
    meeting->wait(simulation_, [] { return std::string("the other ranks"); });
  }
}

// Returns the reduction over ranks of their input block `block`.
sim::Value LocalCommunicator::reduce(const Calls& ranks, std::size_t block) {
  sim::MemoryStore& memory = simulation_.machine().memory();
  const ReduceOp op = ranks.front()->op;
  const AverageDivisors divisors =
      op == ReduceOp::avg ? AverageDivisors::of(ranks.front()->gives[block].tensor.dtype(),
                                                static_cast<int>(ranks.size()))
                          : AverageDivisors{};
  const auto load_divided = [&](std::int64_t rank) {
    return divided(load(ranks[static_cast<std::size_t>(rank)]->gives[block]), divisors.before);
  };
  const auto add = [&](const sim::Value& x, const sim::Value& y) {
    return memory.math(to_math_op(op), x, y);
  };
  const bool in_pairs = ranks.front()->reproducible == Reproducible::pairs;
  sim::Value result = in_pairs ? sim::add_in_pairs(0, std::ssize(ranks), load_divided, add)
                               : load_divided(0);
  for (std::int64_t rank = 1; rank < std::ssize(ranks) && !in_pairs; ++rank) {
    result = add(result, load_divided(rank));
  }
  const DType dtype = result.dtype();
  if (divisors.is_after_exact_in(dtype)) return divided(result, divisors.after);
  const auto converted = [&](const sim::Value& value, DType to) {
    return memory.math(sim::MathOp::convert, to, {&value, 1});
  };
  return converted(divided(converted(result, DType::f32), divisors.after), dtype);
}

sim::Value LocalCommunicator::divided(const sim::Value& value, double divisor) {
  if (divisor == 1) return value;
  sim::MemoryStore& memory = simulation_.machine().memory();
  return memory.math(sim::MathOp::divide, value,
                     memory.constant(value.dtype(), value.element_count(), divisor));
}

void LocalCommunicator::exchange(const Calls& ranks) {
  const CollectiveTraits& traits = traits_of(ranks.front()->kind);
  if (traits.takes == BlockCount::none) return;
  if (!traits.reduces) return exchange_blocks(ranks);
  const int root = ranks.front()->root;
  std::vector<sim::Value> results;  // before any is stored: an output may be an input
  const std::size_t result_count = traits.gives == BlockCount::each ? ranks.size() : 1;
  for (std::size_t block = 0; block < result_count; ++block) {
    results.push_back(reduce(ranks, block));
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto own = static_cast<int>(rank);
    if (traits.is_sent(root, own, own)) {
      store(ranks[rank]->takes.front(), results[std::min(rank, result_count - 1)]);
    }
  }
}

// Writes to each rank's output for a peer what that peer gives to it.
void LocalCommunicator::exchange_blocks(const Calls& ranks) {
  struct Write {
    const Block* target;
    sim::Value value;
  };
  const CollectiveTraits& traits = traits_of(ranks.front()->kind);
  std::vector<Write> writes;  // after all that is read
  for (std::size_t from = 0; from < ranks.size(); ++from) {
    for (std::size_t to = 0; to < ranks.size(); ++to) {
      const bool has_it = traits.is_in_place() && from == to;
      const bool is_sent =
          traits.is_sent(ranks.front()->root, static_cast<int>(from), static_cast<int>(to));
      if (has_it || !is_sent) continue;
      const Block* given = block_for(ranks[from]->gives, static_cast<int>(to));
      const Block* taken = block_for(ranks[to]->takes, static_cast<int>(from));
      if (given != nullptr && taken != nullptr) writes.push_back({taken, load(*given)});
    }
  }
  for (const Write& write : writes) store(*write.target, write.value);
}

}  // namespace

int LocalBackend::world_size() const {
  return simulation_.topology().system.sip_count;
}

std::unique_ptr<Communicator> LocalBackend::connect(const std::vector<int>& ranks,
                                                    std::string_view /*description*/) {
  return std::make_unique<LocalCommunicator>(simulation_, static_cast<int>(ranks.size()));
}

bool register_local_backend() {
  return register_backend("local", [](const BackendInputs& inputs) -> std::unique_ptr<Backend> {
    return std::make_unique<LocalBackend>(*inputs.simulation);
  });
}

}  // namespace kernbench::distributed
