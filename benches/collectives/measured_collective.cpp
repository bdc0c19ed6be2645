#include "benches/collectives/measured_collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <string>

#include "benches/collectives/exchange.h"
#include "runtime/multiprocessing/host_room.h"
#include "runtime/torch/profiler.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::collectives {

namespace {

constexpr int kMaxWorldSize = 1 << 20;

// The host's own time for a call, before the device hears of it.  Messages and shifts are not
// issued by torch.distributed's collectives, and `local` has no device.
Time issue_time(const MeasuredInput& input, const Topology& topology) {
  const MeasuredCollective collective = input.blocks.collective;
  const bool is_issued = collective != MeasuredCollective::shift &&
                         collective != MeasuredCollective::sendrecv && input.backend == "ahbm";
  return is_issued ? topology.system.host_issue : Time{0};
}

// The exchanges of groups that run at once, and when each began and ended.
class Exchanges {
 public:
  Exchanges(RuntimeContext& torch, std::span<const MeasuredInput> inputs)
      : torch_(torch),
        inputs_(inputs),
        first_calls_(inputs.size(), Time::max()),
        last_returns_(inputs.size(), Time{0}) {
    for (const MeasuredInput& input : inputs) exchanges_.emplace_back(torch, input);
  }

  std::vector<Measurement> measure();

 private:
  using Act = std::function<void(std::size_t exchange, int rank)>;

  void on_each_rank(const Act& act) const;
  void call_timed(std::size_t exchange, int rank);
  Measurement measurement(std::size_t exchange) const;

  RuntimeContext& torch_;
  const std::span<const MeasuredInput> inputs_;
  std::deque<Exchange> exchanges_;  // which cannot be moved
  std::vector<Time> first_calls_;   // by exchange
  std::vector<Time> last_returns_;
};

// The time begins with the PE that was launched last and ends with the one that ends last, so no
// PE's wait for the launch of others is part of it (ADR-0193).
Time joint_execution(std::span<const runtime::KernelResult> results) {
  Time begin{0};
  Time end{0};
  for (const runtime::KernelResult& result : results) {
    begin = std::max(begin, result.start);
    end = std::max(end, result.end);
  }
  return end - begin;
}

// The ranks of torch.distributed act at the same time, each on its own device.
void Exchanges::on_each_rank(const Act& act) const {
  if (exchanges_.front().has_one_driver()) {
    for (int rank = 0; rank < exchanges_.front().caller_count(); ++rank) act(0, rank);
    return;
  }
  const auto worker = [&](int global_rank) {
    for (std::size_t i = 0; i < exchanges_.size(); ++i) {
      const auto rank = exchanges_[i].rank_of(global_rank);
      if (!rank) continue;
      torch_.ahbm.set_device(global_rank);
      act(i, *rank);
    }
  };
  torch_.multiprocessing.spawn(worker, {}, torch_.distributed.get_world_size());
}

void Exchanges::call_timed(std::size_t exchange, int rank) {
  Time& first = first_calls_[exchange];
  first = std::min(first, torch_.engine().now() + issue_time(inputs_[exchange], torch_.topology()));
  for (int i = 0; i < inputs_[exchange].repetitions; ++i) exchanges_[exchange].call(rank);
  torch_.ahbm.synchronize();
  Time& last = last_returns_[exchange];
  last = std::max(last, torch_.engine().now());
  const MeasuredInput& input = inputs_[exchange];
  const std::string calls =
      input.repetitions == 1 ? "" : fmt::format("{} calls of ", input.repetitions);
  profiler::timed(torch_, fmt::format("{}{} B", calls, input.blocks.bytes()), first, last);
}

Measurement Exchanges::measurement(std::size_t exchange) const {
  const MeasuredInput& input = inputs_[exchange];
  const Exchange& own = exchanges_[exchange];
  Measurement measured;
  measured.time =
      Time{(last_returns_[exchange] - first_calls_[exchange]).count() / input.repetitions};
  measured.critical = torch_.engine().critical_pe_exec();
  measured.joint = joint_execution(torch_.engine().last_results());
  measured.waits = torch_.engine().longest_waits();
  if (torch_.options().data) {
    measured.wrong = 0;
    for (int rank = 0; rank < own.caller_count(); ++rank) *measured.wrong += own.count_wrong(rank);
  }
  if (input.backend == "ahbm" && input.has_theory) own.add_theory(measured);
  return measured;
}

std::vector<Measurement> Exchanges::measure() {
  const bool has_data = torch_.options().data;
  const MeasuredCollective collective = inputs_.front().blocks.collective;
  const bool is_shift = collective == MeasuredCollective::shift;
  const auto bring = [&](std::size_t exchange, int rank) {
    if (has_data) exchanges_[exchange].bring(rank);
  };
  // Ranks that bring equally much are ready at the same time, and call at once.
  const bool are_alike = !spec_of(collective).has_root && !is_shift;
  if (!are_alike) on_each_rank(bring);
  const auto timed = [&](std::size_t exchange, int rank) {
    if (are_alike) bring(exchange, rank);
    call_timed(exchange, rank);
  };
  is_shift ? timed(0, 0) : on_each_rank(timed);
  std::vector<Measurement> all;
  for (std::size_t i = 0; i < exchanges_.size(); ++i) all.push_back(measurement(i));
  return all;
}

// Counts the copies or summands of a tensor on a device.
std::int64_t count_copies(const DPPolicy& placement, const Topology& topology) {
  const auto is_whole = [](Shard shard) {
    return shard == Shard::replicate || shard == Shard::partial;
  };
  return std::int64_t{is_whole(placement.cube) ? placement.cube_holders(topology) : 1} *
         (is_whole(placement.pe) ? placement.pe_holders(topology) : 1);
}

// Refuses tensors that the host cannot hold; the memory of the checks comes on top.  Values that do
// not fit would fill the memory before anything could be reported.
void check_memory(std::span<const MeasuredInput> inputs, const Topology& topology) {
  double needed = 0;
  for (const MeasuredInput& input : inputs) {
    const std::int64_t copies = input.blocks.ranks * count_copies(input.placement, topology);
    needed += static_cast<double>(input.blocks.bytes()) * static_cast<double>(copies);
  }
  const auto limit = static_cast<double>(multiprocessing::host_memory());
  if (needed <= limit) return;
  throw LimitError("KB-L001",
                   "the values of this size need at least {:.1f} GB of memory, of which the host "
                   "has {:.1f}; give a smaller size, or time it without values: --bench "
                   "collectives --set check=0",
                   needed / 1e9, limit / 1e9);
}

}  // namespace

DPPolicy default_placement(const ccl::Config& config) {
  if (config.participants() == ccl::Participants::one_pe_per_sip) return DPPolicy::on_one_pe();
  const bool adds_up = config.is_auto() || config.algorithm().reduces_in_sip;
  return {.cube = adds_up ? Shard::partial : Shard::column_wise, .pe = Shard::column_wise};
}

SettingInfo world_size_setting() {
  return {"world_size", "", "rank = PE: the first so many PEs; else ccl.yaml's, or SIPs",
          SettingType::integer};
}

ccl::Config choose_algorithm_and_ranks(const Bench& bench) {
  const Settings& settings = bench.settings();
  const ccl::Config ccl = choose_algorithm(bench);
  if (!settings.is_set("world_size")) return ccl;
  const auto ranks = settings.integers("world_size", 1, kMaxWorldSize).front();
  return ccl.with_world_size(static_cast<int>(ranks));
}

MeasuredInput input_for(const ccl::Config& config, const Topology& topology) {
  const std::string_view collective =
      config.is_auto() ? "all_reduce" : config.algorithm().collective;
  if (collective != "all_reduce" && collective != "shift") {
    throw CollectiveError("KB-C012",
                          "'{}' is a {}, and this bench can check an all_reduce or a shift; write "
                          "a bench of your own for it",
                          config.algorithm_name(), collective);
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
  return measure_at_once(torch, std::span(&input, 1)).front();
}

std::vector<Measurement> measure_at_once(RuntimeContext& torch,
                                         std::span<const MeasuredInput> inputs) {
  const MeasuredInput& first = inputs.front();
  KB_CHECK(first.repetitions == 1 || !torch.options().data, "{} repetitions with data",
           first.repetitions);
  if (torch.options().data) check_memory(inputs, torch.topology());
  const bool has_group = first.blocks.collective != MeasuredCollective::shift;
  if (has_group) torch.distributed.init_process_group(first.backend);
  std::vector<Measurement> all = Exchanges(torch, inputs).measure();
  if (has_group) torch.distributed.destroy_process_group();
  for (const Measurement& measured : all) {
    // With several repetitions, one may begin before the previous one has ended on all ranks.
    KB_CHECK(first.repetitions > 1 || measured.time >= measured.lower_bound.value_or(Time{0}),
             "{} of {} B took {}, less than the lower bound of {}",
             name_of(first.blocks.collective), first.blocks.bytes(), to_string(measured.time),
             to_string(*measured.lower_bound));
  }
  return all;
}

}  // namespace kernbench::benches::collectives
