// Every public entry is called with objects of all wrong kinds: undefined, of the host, of another
// context or one that has ended, of another rank, device, type, shape or placement.  A call is
// right, or ends in an Error with a code; none crashes, hangs, or fails a check of ours.
//
//     KERNBENCH_RANDOM_SEED=4711 test/parallel/parallel_test '[wrong_objects]'
//     KERNBENCH_RANDOM_CALLS=1000000, and KERNBENCH_RANDOM_TRACE=1 prints each call before it runs

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <memory>

#include "runtime/torch/run_ranks.h"
#include "sim_engine/base/check.h"
#include "test/parallel/wrong_objects/given.h"
#include "test/support/small_topology.h"
#include "tp/parallel_state.h"

namespace kernbench::test::wrong_objects {
namespace {

constexpr int kRanks = 2;
constexpr int kCallsOfAContext = 100;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

const std::vector<Entry>& all_entries() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> all = operator_entries();
    for (const auto& more : {tensor_entries(), host_entries(), module_entries()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return entries;
}

// How the calls have ended.
struct Outcomes {
  std::int64_t right = 0;
  std::int64_t refused = 0;
  std::map<std::string, std::int64_t> by_code;
  std::vector<std::string> wrong;

  void fail(const std::string& text) {
    if (wrong.size() < 20) wrong.push_back(text);
  }
};

class Caller {
 public:
  Caller(Given& given, Outcomes& outcomes) : given_(given), outcomes_(outcomes) {}

  void call(const Entry& entry) {
    given_.take_drawn();
    try {
      entry.call(given_);
      given_.torch.ahbm.synchronize();
      ++outcomes_.right;
    } catch (const Error& error) {
      ++outcomes_.refused;
      ++outcomes_.by_code[error.code()];
      if (error.exit_code() == ExitCode::internal || error.code().starts_with("KB-X")) {
        fail(entry, error.what());
      }
    } catch (const std::exception& error) {
      fail(entry, error.what());
    }
  }

 private:
  void fail(const Entry& entry, std::string_view text) {
    outcomes_.fail(fmt::format("{} of {}: {}", entry.name, given_.take_drawn(), text));
  }

  Given& given_;
  Outcomes& outcomes_;
};

RuntimeOptions options_of(std::uint64_t seed) {
  return {.launch_blocking = seed % 4 == 0};
}

std::unique_ptr<RuntimeContext> make_context(std::uint64_t seed) {
  auto torch = std::make_unique<RuntimeContext>(small_topology(), options_of(seed));
  torch->distributed.init_process_group(seed % 2 == 0 ? "ahbm" : "local");
  return torch;
}

Elsewhere make_elsewhere(RuntimeContext& torch) {
  const TensorOptions one_pe{.dp = DPPolicy::on_one_pe()};
  const ahbm::Stream stream = torch.ahbm.Stream();
  return {torch.ones({2, 3}, one_pe),
          torch.ones({2, 3}, one_pe).requires_grad_(),
          stream,
          stream.record_event(),
          torch.distributed.new_group({0, 1}),
          nn::Linear(torch, 3, 2, one_pe)};
}

// Calls entries that a seed chooses, in a context of their own.
void call_entries(std::uint64_t seed, std::span<const Entry> entries, Outcomes& outcomes) {
  const bool traces = std::getenv("KERNBENCH_RANDOM_TRACE") != nullptr;
  const auto other = make_context(seed + 1);
  auto ended = make_context(seed);
  const Elsewhere of_other = make_elsewhere(*other);
  const Elsewhere of_ended = make_elsewhere(*ended);
  ended.reset();
  const auto torch = make_context(seed);
  Pool of_rank_0;
  const auto worker = [&](int rank) {
    tp::initialize_model_parallel(*torch, {.tensor_model_parallel_size = kRanks});
    Pool pool = make_pool(*torch, {&of_other, &of_ended});
    if (rank == 0) of_rank_0 = pool;
    torch->distributed.barrier();
    for (auto& stream : of_rank_0.streams) pool.streams.push_back(stream);
    for (auto& event : of_rank_0.events) pool.events.push_back(event);
    Given given(*torch, rank, std::move(pool), seed);
    for (int i = 0; i < kCallsOfAContext; ++i) {
      const Entry& entry = entries[given.below(entries.size())];
      if (traces) fmt::print(stderr, "seed {} rank {} call {}: {}\n", seed, rank, i, entry.name);
      Caller(given, outcomes).call(entry);
    }
  };
  try {
    run_on_devices(*torch, kRanks, worker);
  } catch (const Error& error) {
    ++outcomes.by_code[error.code()];
    if (error.exit_code() == ExitCode::internal) outcomes.fail(error.what());
  }
}

// 100,000 calls in all, in tenths that run beside each other: some calls take half a minute.
TEMPLATE_TEST_CASE_SIG("no object of a wrong kind crashes a call", "[wrong_objects][exhaustive]",
                       ((int tenth), tenth), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9) {
  const std::uint64_t seed = from_environment("KERNBENCH_RANDOM_SEED", 20'261'123 + 50 * tenth);
  const std::uint64_t calls = from_environment("KERNBENCH_RANDOM_CALLS", 10'000);
  CAPTURE(seed);
  Outcomes outcomes;
  for (std::uint64_t i = 0; i * kCallsOfAContext * kRanks < calls; ++i) {
    call_entries(seed + i, all_entries(), outcomes);
    if (!outcomes.wrong.empty()) {
      UNSCOPED_INFO("context " << i << ", seed " << seed + i);
      break;
    }
  }
  for (const std::string& wrong : outcomes.wrong) UNSCOPED_INFO(wrong);
  CHECK(outcomes.wrong.empty());
  CHECK(outcomes.right > 0);
  CHECK(outcomes.refused > outcomes.right / 4);
}

}  // namespace
}  // namespace kernbench::test::wrong_objects
