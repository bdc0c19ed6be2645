// The options of a RuntimeContext.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace kernbench {

enum class Reproducible : std::uint8_t;

namespace distributed {
class BackendConfig;
}
namespace runtime {
class ScheduleChoices;
}

// The options say what a context computes, records and allows.
struct RuntimeOptions {
  // ccl.yaml, as ccl::Config; null: the built-in defaults.
  std::shared_ptr<const distributed::BackendConfig> ccl = nullptr;
  bool data = true;  // compute values too; without it runs are faster and give only times
  // Record what explains the time: calls, kernels and waits by name, and their causes.
  bool profile = false;
  // Count what energy is made of (ADR-0268); nullopt: contexts of a bench do if its run asks.
  std::optional<bool> energy = std::nullopt;
  bool trace = false;  // record what every unit does, too, for traces of TraceLevel::units
  // The number of operations that the op log keeps, the latest ones (40 bytes each: 10 MiB), so
  // that long runs do not fill the host's memory; 0: all.
  std::size_t op_log_limit = std::size_t{1} << 18;
  // The number of threads on which a host read may compute, including the caller's; 0: one per
  // core.  The values do not depend on it.
  int evaluation_threads = 0;
  // The number of commands after which kernels count as endless (DeadlockError KB-D002): each may
  // issue 50,000, and those that run at the same time this many more together; 0: any number.
  std::int64_t command_limit = 10'000'000;
  // The host time for which a kernel may run without waiting for anything; then the process ends
  // with KB-D003 and exit code 20.  0: for ever.
  std::chrono::milliseconds kernel_time_limit = std::chrono::seconds(10);
  // The host time for which a rank may run without waiting for anything or returning.  Then
  // standard error names the rank and its last call (KB-D004), and again each time that it has run
  // for twice as long.  0: never.
  std::chrono::milliseconds rank_notice_time = std::chrono::seconds(10);
  // The host time after which such a rank ends the process with KB-D004 and exit code 20.  0, and
  // the default: for ever, as a rank may compute; in a testing::World, which nobody watches: 60 s.
  std::optional<std::chrono::milliseconds> rank_time_limit = std::nullopt;
  // A launch returns to its rank when it is issued, and a collective on devices does, as on every
  // device that PyTorch drives (ADR-0190).  True: when they are done.  Without a value the
  // environment's KERNBENCH_LAUNCH_BLOCKING says so, 1 or 0; without that `launch.blocking` of the
  // topology (ADR-0190).
  std::optional<bool> launch_blocking = std::nullopt;
  // The least level of every reduction over ranks.  Without a value the environment says so
  // (KERNBENCH_BATCH_INVARIANT, KERNBENCH_WORLD_INVARIANT or KERNBENCH_RANK_INVARIANT; ADR-0180).
  std::optional<Reproducible> reproducible = std::nullopt;
  // A seed: what happens at the same simulated instant then happens in any legal order, drawn at
  // random, to find times that depend on it.  Equal seeds draw equally; no value depends on it.
  std::optional<std::uint64_t> shuffle_ties = std::nullopt;
  std::shared_ptr<runtime::ScheduleChoices> choices = nullptr;  // testing::explore()'s; null: none
  // Not 0: ranks that lie by multiples of this period apart do the same, and their numbers choose
  // values alone.  Then one worker runs for all of them, and its SIP is simulated for theirs
  // (sim::Folding, ADR-0174).  Times, counts and the fingerprint are those of a run of all ranks.
  // It has no effect with data, trace, profile, energy, shuffle_ties or choices, nor on a machine
  // that shifts by it do not take to itself.  Collectives with a root, messages, lists of unequal
  // blocks, groups that other ranks do not have, and algorithms that treat such ranks unlike, as
  // that of a barrier may, throw CollectiveMismatchError KB-C026.  Tensors of a rank that has a
  // stand-in lie on the stand-in's SIP, so only ranks make them.
  int fold = 0;
  // Such ranks are nearly alike: each may have a part of a tensor on other PEs.  Where chunks have
  // unequal sizes, what is left over is not moved.  A collective with a root, and one of at most
  // 64 KiB whose members take unlike steps, takes the time of its model on all; a larger one throws
  // KB-C026.  Times, bytes and the fingerprint are then nearly those of all ranks.
  bool folds_nearly = false;
};

// The value of the environment's KERNBENCH_LAUNCH_BLOCKING; nullopt if it is not set, or empty.
std::optional<bool> launches_block_by_environment();

}  // namespace kernbench
