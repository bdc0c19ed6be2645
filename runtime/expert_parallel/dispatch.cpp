// dispatch() and combine().

#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/distributed.h"
#include "runtime/expert_parallel/checks.h"
#include "runtime/expert_parallel/exchange.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/host_copy.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::moe {

namespace {

using Integers = std::vector<std::int64_t>;

RuntimeContext& context_of_tensor(const Tensor& x) {
  return runtime::context_of(*x.storage()->simulation);
}

bool has_values(const Tensor& x) {
  return x.storage()->simulation->machine().memory().has_data();
}

// The choice may also be on the host.
void check_tensors(const Tensor& x, const Tensor& topk_idx, const Tensor& topk_weights) {
  constexpr std::string_view kUser = "dispatch";
  runtime::check_on_device(x, kUser);
  const runtime::Simulation& simulation = *x.storage()->simulation;
  runtime::check_on_device(topk_weights, simulation, kUser);
  if (topk_idx.defined() && topk_idx.is_host()) return;
  runtime::check_on_device(topk_idx, simulation, kUser);
}

// Rows are moved whole, and none is the sum of several.
void check_rows(std::string_view user, const Tensor& x) {
  ops::check_is_whole(user, x);
  ops::check_is_uncut(user, x, 1);
}

void check_handle(std::string_view user, const Handle& handle) {
  if (handle) return;
  throw CollectiveError("KB-C029", "{}: the handle is none: give that of a Dispatched", user);
}

void check_dispatch(const Tensor& x, const Tensor& topk_idx, const Tensor& topk_weights,
                    std::int64_t num_experts) {
  const bool fits = x.dim() == 2 && x.size(1) >= 1 && topk_idx.dim() == 2 &&
                    topk_idx.size(0) == x.size(0) && topk_idx.shape() == topk_weights.shape() &&
                    topk_idx.size(1) >= 1;
  if (!fits) {
    throw CollectiveError("KB-C029",
                          "dispatch: x is [tokens, hidden], and topk_idx and topk_weights are "
                          "[tokens, top_k]; they are {}, {} and {}",
                          to_string(x.shape()), to_string(topk_idx.shape()),
                          to_string(topk_weights.shape()));
  }
  check_top_k("dispatch", topk_idx.size(1), num_experts);
  check_rows("dispatch", x);
}

void check_capacity_options(const DispatchOptions& options) {
  if (!options.pad_to_capacity || options.capacity_factor) return;
  throw CollectiveError("KB-C029",
                        "moe_expert_capacity_factor must be set to use "
                        "moe_pad_expert_input_to_capacity: give capacity_factor with "
                        "pad_to_capacity");
}

// The host reads for a dispatch, and the simulated time that they take.
class HostReads {
 public:
  explicit HostReads(RoutingReader reader) : is_host_(reader == RoutingReader::host) {}

  // The elements are there when this returns.
  void wait_for(const Tensor& x) {
    if (is_host_) time_ += runtime::carry_to_host(contiguous(x.detach()));
  }
  bool is_host() const { return is_host_; }
  Time time() const { return time_; }

 private:
  bool is_host_;
  Time time_{0};
};

Integers read_experts(const Tensor& topk_idx, const DispatchOptions& options, HostReads& reads) {
  if (!topk_idx.is_host()) reads.wait_for(topk_idx);
  if (options.experts) {
    if (std::ssize(*options.experts) == topk_idx.numel()) return *options.experts;
    throw CollectiveError("KB-C029", "dispatch: {} experts are given; topk_idx {} has {}",
                          options.experts->size(), to_string(topk_idx.shape()), topk_idx.numel());
  }
  return topk_idx.is_host() ? topk_idx.to_vector<std::int64_t>() : read_indices(topk_idx);
}

// The weights, where they decide what is dropped.
std::vector<float> read_weights(const Tensor& topk_weights, const DispatchOptions& options,
                                HostReads& reads) {
  if (!options.capacity_factor || options.drop_policy != DropPolicy::probs) return {};
  reads.wait_for(topk_weights);
  if (!has_values(topk_weights)) return {};
  return topk_weights.to_vector();
}

// Returns how many rows each rank sends to each of the caller's experts, rank by rank.
Integers exchange_counts(const Tensor& x, const Exchange& exchange, HostReads& reads) {
  RuntimeContext& torch = context_of_tensor(x);
  const Integers& own = exchange.sends.counts;
  const Shape shape{std::ssize(own)};
  const TensorOptions options{.dtype = DType::i32, .dp = DPPolicy::on_one_pe(), .name = "counts"};
  const runtime::MadeAs buffers(simulation_of(torch), MemoryKind::communication);
  Tensor sent = torch.tensor(own, shape, options);
  if (reads.is_host()) sent.copy_(RuntimeContext::tensor(own, shape));
  const Tensor counts = torch.empty(shape, options);
  torch.distributed.all_to_all_single(counts, sent, {.group = exchange.group});
  reads.wait_for(counts);
  if (has_values(counts)) return read_indices(counts);
  // Without values the hosts tell each other what the message would have had.
  std::vector<Integers> all(static_cast<std::size_t>(exchange.ranks));
  torch.distributed.all_gather_object(all, own, exchange.group);
  const std::int64_t each = std::ssize(own) / exchange.ranks;
  const std::int64_t rank = torch.distributed.get_rank(exchange.group);
  Integers received;
  for (const Integers& of : all) {
    received.insert(received.end(), of.begin() + rank * each, of.begin() + (rank + 1) * each);
  }
  return received;
}

// The sums of consecutive groups of as many.
Integers sums_of_groups(std::span<const std::int64_t> counts, std::int64_t groups) {
  const auto each = counts.size() / static_cast<std::size_t>(groups);
  Integers sums;
  for (std::size_t first = 0; first < counts.size(); first += each) {
    const auto of = counts.subspan(first, each);
    sums.push_back(std::accumulate(of.begin(), of.end(), std::int64_t{0}));
  }
  return sums;
}

Tensor exchange_rows(const Exchange& exchange, const Tensor& rows, const Integers& given,
                     const Integers& taken) {
  if (exchange.ranks == 1) return rows;
  RuntimeContext& torch = context_of_tensor(rows);
  const runtime::MadeAs buffers(simulation_of(torch), MemoryKind::communication);
  const std::int64_t count = std::accumulate(taken.begin(), taken.end(), std::int64_t{0});
  const Tensor arrived =
      torch.empty({count, rows.size(1)}, {.dtype = rows.dtype(), .dp = rows.dp()});
  torch.distributed.all_to_all_single(arrived, rows, taken, given, {.group = exchange.group});
  return arrived;
}

bool is_in_order(const RowSources& sources) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

Tensor in_order(const Tensor& rows, const RowSources& sources) {
  return is_in_order(sources) ? rows : move_rows("moe_sort", rows, rows.size(1), sources);
}

// Rows of experts, as rows of slots: [tokens, top_k hidden].
Tensor rows_of_slots(const Exchange& exchange, const Tensor& y) {
  return move_rows("moe_unpermute", exchange.from_experts(y), y.size(1), exchange.rows_of_slots,
                   exchange.top_k);
}

Tensor by_slot(const Exchange& exchange, const Tensor& rows) {
  return reshape(rows, {exchange.tokens, exchange.top_k, rows.size(1) / exchange.top_k});
}

Tensor send_tokens(const std::shared_ptr<const Exchange>& exchange, const Tensor& x) {
  RowSources tokens;
  for (const std::int64_t slot : exchange->sends.slots) {
    tokens.push_back(slot == kNoRow ? kNoRow : slot / exchange->top_k);
  }
  const NoGradGuard no_grad(x);
  return exchange->to_experts(move_rows("moe_permute", x, x.size(1), std::move(tokens)));
}

Integers experts_of_rows(const Integers& counts) {
  Integers experts;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    experts.insert(experts.end(), static_cast<std::size_t>(counts[e]),
                   static_cast<std::int64_t>(e));
  }
  return experts;
}

}  // namespace

Tensor Exchange::to_experts(const Tensor& rows) const {
  return in_order(exchange_rows(*this, rows, sent, received), by_expert);
}

Tensor Exchange::from_experts(const Tensor& rows) const {
  return exchange_rows(*this, in_order(contiguous(rows), by_sender), received, sent);
}

void Exchange::receive(std::span<const std::int64_t> counts) {
  received = sums_of_groups(counts, ranks);
  const std::size_t each = counts.size() / static_cast<std::size_t>(ranks);
  std::vector<std::int64_t> begins;  // of the rows of each rank and expert
  std::exclusive_scan(counts.begin(), counts.end(), std::back_inserter(begins), std::int64_t{0});
  for (std::size_t expert = 0; expert < each; ++expert) {
    std::int64_t rows = 0;
    for (std::size_t i = expert; i < counts.size(); i += each) {
      for (std::int64_t row = 0; row < counts[i]; ++row) by_expert.push_back(begins[i] + row);
      rows += counts[i];
    }
    received_by.push_back(rows);
  }
  by_sender = inverse_of(by_expert, std::ssize(by_expert));
}

Dispatched dispatch(const Tensor& of, const Tensor& topk_idx, const Tensor& topk_weights,
                    std::int64_t num_experts, const DispatchOptions& options) {
  check_tensors(of, topk_idx, topk_weights);
  auto exchange = std::make_shared<Exchange>();
  exchange->group = options.group;
  exchange->ranks = check_experts("dispatch", context_of_tensor(of), options.group, num_experts);
  check_dispatch(of, topk_idx, topk_weights, num_experts);
  check_capacity_options(options);
  const Tensor x = contiguous(of);
  exchange->tokens = x.size(0);
  exchange->top_k = topk_idx.size(1);
  exchange->topk_weights = topk_weights;
  HostReads reads(options.routing);
  const Integers experts = read_experts(topk_idx, options, reads);
  const std::vector<float> weights = read_weights(topk_weights, options, reads);
  exchange->sends = plan_sends({experts, weights, num_experts}, options);
  exchange->rows_of_slots = inverse_of(exchange->sends.slots, topk_idx.numel());
  exchange->sent = sums_of_groups(exchange->sends.counts, exchange->ranks);
  const bool are_known = exchange->ranks == 1 || options.pad_to_capacity;
  exchange->receive(are_known ? exchange->sends.counts : exchange_counts(x, *exchange, reads));
  exchange->host_reads = reads.time();
  const Tensor sent = send_tokens(exchange, x);
  const Tensor recv_x = autograd::record(
      "moe_dispatch", sent, {x},
      [exchange = std::shared_ptr<const Exchange>(exchange)](const Tensor& dy) {
        return std::vector{sum(by_slot(*exchange, rows_of_slots(*exchange, dy)), {1})};
      });
  return {recv_x, experts_of_rows(exchange->received_by), exchange->received_by, exchange};
}

Tensor combine(const Tensor& y, const Handle& handle) {
  check_handle("combine", handle);
  runtime::check_on_device(y, *handle->topk_weights.storage()->simulation, "combine");
  const std::int64_t rows = std::ssize(handle->by_expert);
  if (y.dim() != 2 || y.size(0) != rows || y.size(1) == 0) {
    throw CollectiveError("KB-C029",
                          "combine: y is {}; dispatch() gave this rank's experts {} rows",
                          to_string(y.shape()), rows);
  }
  check_rows("combine", y);
  Tensor of_slots;
  {
    const NoGradGuard no_grad(y);
    of_slots = rows_of_slots(*handle, y);
  }
  of_slots = autograd::record("moe_combine", of_slots, {y}, [handle](const Tensor& dy) {
    const std::int64_t width = dy.size(1) / handle->top_k;
    return std::vector{
        handle->to_experts(move_rows("moe_permute", contiguous(dy), width, handle->sends.slots))};
  });
  return sum(by_slot(*handle, of_slots) * unsqueeze(handle->topk_weights, -1), {1});
}

ExchangeSizes sizes_of(const Handle& handle) {
  check_handle("sizes_of", handle);
  return {handle->tokens, handle->top_k,    handle->sends.kept, handle->sends.capacity,
          handle->sent,   handle->received, handle->host_reads};
}

}  // namespace kernbench::moe
