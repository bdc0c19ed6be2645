#include "runtime/distributed/collective_ledger.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim_engine/base/error.h"

namespace kernbench::distributed {

namespace {

std::string call_site(const std::source_location& location) {
  const std::string_view path(location.file_name());
  return fmt::format("{}:{}", path.substr(path.find_last_of('/') + 1), location.line());
}

// As PyTorch's ProcessGroupWrapper prints it.
std::string fingerprint_text(const CollectiveFingerprint& print, std::uint64_t sequence) {
  std::string text =
      fmt::format("CollectiveFingerPrint(SequenceNumber={}, OpType={}", sequence, print.op_type);
  if (!print.shape.empty()) {
    text += fmt::format(", TensorShape={}, TensorDtypes={}, ReduceOp={}, Placement=({})",
                        print.shape, print.dtype, print.reduce_op, print.placement);
  }
  return text + ")";
}

// "rank 1", "ranks 1, 2 and 4"
template <class Ranks>
std::string name_ranks(const Ranks& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "),
                     ranks.back());
}

}  // namespace

std::string describe(const CollectiveFingerprint& print, std::uint64_t sequence) {
  std::string text = fmt::format("{}#{}", print.function, sequence);
  if (!print.shape.empty()) {
    text += fmt::format(" ({} {} {})", print.shape, print.dtype, print.reduce_op);
  }
  return fmt::format("{} at {}", text, call_site(print.location));
}

CollectiveLedger::CollectiveLedger(int world_size)
    : world_size_(world_size),
      next_sequence_(static_cast<std::size_t>(world_size), 0),
      absence_(static_cast<std::size_t>(world_size), Absence::present) {}

CollectiveCall CollectiveLedger::arrive(int rank, const CollectiveFingerprint& fingerprint,
                                        std::uint64_t operation) {
  const std::uint64_t sequence = next_sequence_.at(static_cast<std::size_t>(rank))++;
  const std::size_t index = sequence - first_sequence_;
  if (index == records_.size()) records_.push_back({operation, fingerprint, {}, {}});
  Record& record = records_[index];
  if (!record.ranks.empty()) check_match(record, rank, fingerprint, sequence);
  note_device(record, rank, fingerprint);
  record.ranks.push_back(rank);
  check_nobody_left(record, sequence);

  const CollectiveCall call{rank, sequence, record.operation};
  while (!records_.empty() &&
         records_.front().ranks.size() == static_cast<std::size_t>(world_size_)) {
    records_.pop_front();
    ++first_sequence_;
  }
  return call;
}

void CollectiveLedger::check_match(const Record& record, int rank, const CollectiveFingerprint& b,
                                   std::uint64_t sequence) const {
  const CollectiveFingerprint& a = record.first;
  const int first_rank = record.ranks.front();
  std::vector<std::string> aspects;
  const auto compare = [&](std::string_view what, const std::string& one,
                           const std::string& other) {
    if (one != other) aspects.push_back(fmt::format("{}: {} vs {}", what, one, other));
  };
  compare("Op type", a.op_type, b.op_type);
  if (aspects.empty()) {
    compare("Tensor shapes", a.shape, b.shape);
    compare("Tensor dtypes", a.dtype, b.dtype);
    compare("Reduce op", a.reduce_op, b.reduce_op);
    compare("Placement", a.placement, b.placement);
  }
  if (aspects.empty()) return;
  throw CollectiveMismatchError(
      "KB-C001",
      fmt::format(
          "Detected mismatch between collectives on ranks. Rank {} is running collective: {}, "
          "but Rank {} is running collective: {}. Collectives differ in the following "
          "aspects: {}\n  rank {} called {}\n  rank {} called {}",
          first_rank, fingerprint_text(a, sequence), rank, fingerprint_text(b, sequence),
          fmt::join(aspects, "; "), first_rank, describe(a, sequence), rank,
          describe(b, sequence)));
}

void CollectiveLedger::note_device(Record& record, int rank,
                                   const CollectiveFingerprint& later) const {
  if (later.device < 0) return;
  const auto device = static_cast<std::size_t>(later.device);
  const auto known = std::max(device + 1, static_cast<std::size_t>(world_size_));
  if (record.rank_of_device.size() < known) record.rank_of_device.resize(known, -1);
  int& holder = record.rank_of_device[device];
  if (holder >= 0) {
    throw CollectiveError(
        "KB-C011", fmt::format("ranks {} and {} both brought a tensor on device {} to {}; call "
                               "torch.ahbm.set_device(rank) before making tensors",
                               holder, rank, later.device, later.function));
  }
  holder = rank;
}

void CollectiveLedger::check_nobody_left(const Record& record, std::uint64_t sequence) const {
  for (int rank = 0; absent_count_ > 0 && rank < world_size_; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (absence_[index] == Absence::present || next_sequence_[index] > sequence) continue;
    std::vector<int> waiting = record.ranks;
    std::ranges::sort(waiting);
    throw DeadlockError(
        "KB-C002",
        fmt::format("rank {} {} {}#{}, which {} called\n  {}", rank,
                    absence_[index] == Absence::returned ? "finished without calling"
                                                         : "was never started, so it cannot call",
                    record.first.function, sequence, name_ranks(waiting),
                    fmt::format("rank {} called {}", record.ranks.front(),
                                describe(record.first, sequence))),
        ExitCode::collective_misuse);
  }
}

void CollectiveLedger::leave(int rank, bool was_started) {
  Absence& absence = absence_.at(static_cast<std::size_t>(rank));
  absent_count_ += absence == Absence::present;
  absence = was_started ? Absence::returned : Absence::never_started;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    check_nobody_left(records_[i], first_sequence_ + i);
  }
}

}  // namespace kernbench::distributed
