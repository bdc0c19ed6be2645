#include "runtime/distributed/collective_ledger.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/distributed/fingerprint.h"
#include "runtime/fiber/fiber_local.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed {

namespace {

std::vector<std::int64_t> list_counts(std::span<const Block> blocks) {
  std::vector<std::int64_t> counts;
  for (const Block& block : blocks) counts.push_back(block.count);
  const bool are_equal = std::ranges::adjacent_find(counts, std::not_equal_to()) == counts.end();
  // Equal counts are kept as one, since 1,024 ranks with a list each would need a million entries.
  if (are_equal && !counts.empty()) counts.resize(1);
  return counts;
}

// Returns a member's entry of a list with one entry for all, or one for each; -1 if it is empty.
std::int64_t entry(const std::vector<std::int64_t>& list, int rank) {
  if (list.empty()) return -1;
  return list.size() == 1 ? list.front() : list[static_cast<std::size_t>(rank)];
}

// A record must not keep tensors alive that the first member no longer uses.
CollectiveCall without_tensors(CollectiveCall call) {
  call.gives.clear();
  call.takes.clear();
  return call;
}

}  // namespace

CollectiveLedger::CollectiveLedger(std::vector<int> members) {
  for (const int rank : members) members_.push_back({rank});
}

std::uint64_t CollectiveLedger::arrive(const CollectiveCall& call, std::uint64_t operation) {
  if (const auto refused = refused_.find(call.rank); refused != refused_.end()) {
    // The number of futile calls ends programs that catch the error and call again for ever.
    ++refused->second.calls;
    throw CollectiveError("KB-C015", "{}: rank {} cannot use this group since its {}",
                          describe(call), member(call.rank).global_rank, refused->second.what);
  }
  // Ranks run apart by several collectives, so records are a queue and the sequence number finds
  // the call's own.
  const std::size_t index = call.sequence() - first_sequence_;
  if (index == records_.size()) {
    records_.push_back({.operation = operation, .first = without_tensors(call)});
  }
  Record& record = records_[index];
  Arrival arrival{.rank = call.rank};
  // Members may give or take different numbers of elements where one of them has a list.
  if (traits_of(call.kind).has_list()) {
    arrival.gives = list_counts(call.gives);
    arrival.takes = list_counts(call.takes);
  }
  try {
    if (!record.arrivals.empty()) {
      check_match(record, call);
      check_sizes(record, arrival, call);
    }
    note_device(record, call);
  } catch (const Error& error) {
    // The rank's later calls cannot be compared with the others' any more, since its sequence has a
    // gap.
    refused_[call.rank].what = fmt::format("{} was refused ({})", describe(call), error.code());
    throw;
  }
  ++members_.at(static_cast<std::size_t>(call.rank)).next_sequence;
  // The arrival is entered before the check, whose error names this rank among those that wait.
  record.arrivals.push_back(std::move(arrival));
  check_nobody_left(record);
  const std::uint64_t first_operation = record.operation;
  forget_complete_records();
  return first_operation;
}

void CollectiveLedger::arrive_for_others(const CollectiveCall& call, const sim::Folding& folding) {
  if (!folding.is_on()) return;
  const int own = member(call.rank).global_rank;
  std::size_t others = 0;
  for (Member& other : members_) {
    if (other.global_rank == own || folding.first_of(other.global_rank) != own) continue;
    ++other.next_sequence;
    ++others;
  }
  if (others == 0) return;  // and the record may be complete, and gone
  records_[call.sequence() - first_sequence_].stood_for += others;
  forget_complete_records();
}

std::vector<std::uint64_t> CollectiveLedger::fail(std::exception_ptr why) {
  failure_ = std::move(why);
  std::vector<std::uint64_t> open;
  for (const Record& record : records_) open.push_back(record.operation);
  given_up_.insert(open.begin(), open.end());
  first_sequence_ += records_.size();
  records_.clear();
  return open;
}

void CollectiveLedger::refuse_if_failed(int rank) {
  if (failure_ == nullptr) return;
  ++refused_[rank].calls;
  std::rethrow_exception(failure_);
}

int CollectiveLedger::futile_calls(int rank) const {
  const auto refused = refused_.find(rank);
  return refused == refused_.end() ? 0 : refused->second.calls;
}

void CollectiveLedger::forget_complete_records() {
  const auto is_complete = [&](const Record& record) {
    return record.arrivals.size() + record.stood_for == members_.size();
  };
  while (!records_.empty() && is_complete(records_.front())) {
    records_.pop_front();
    ++first_sequence_;
  }
}

void CollectiveLedger::check_match(const Record& record, const CollectiveCall& b) const {
  const CollectiveCall& a = record.first;
  const std::vector<std::string> aspects = differences(a, b);
  if (aspects.empty()) return;
  const int first = member(a.rank).global_rank;
  const int later = member(b.rank).global_rank;
  throw CollectiveMismatchError(
      "KB-C001",
      "Detected mismatch between collectives on ranks. Rank {} is running collective: {}, but Rank "
      "{} is running collective: {}. Collectives differ in the following aspects: {}\n  rank {} "
      "called {}\n  rank {} called {}",
      first, fingerprint_text(a), later, fingerprint_text(b), fmt::join(aspects, "; "), first,
      describe(a), later, describe(b));
}

// Each sender's count must equal the receiver's.  If all ranks pass the same counts, checking one
// pair is enough.
void CollectiveLedger::check_sizes(Record& record, const Arrival& arrival,
                                   const CollectiveCall& later) const {
  if (!traits_of(later.kind).has_list()) return;
  const auto compare = [&](const Arrival& giver, const Arrival& taker) {
    const std::int64_t given = entry(giver.gives, taker.rank);
    const std::int64_t taken = entry(taker.takes, giver.rank);
    if (given < 0 || taken < 0 || given == taken) return;
    throw CollectiveMismatchError(
        "KB-C001",
        "Detected mismatch between collectives on ranks. In {} rank {} gives {} elements to rank "
        "{}, which takes {} from it\n  rank {} called {}\n  rank {} called {}",
        later.event.function, member(giver.rank).global_rank, given, member(taker.rank).global_rank,
        taken, member(record.first.rank).global_rank, describe(record.first),
        member(later.rank).global_rank, describe(later));
  };
  const Arrival& first = record.arrivals.front();
  record.is_uniform = record.is_uniform && arrival.gives.size() <= 1 && arrival.takes.size() <= 1 &&
                      arrival.gives == first.gives && arrival.takes == first.takes;
  for (const Arrival& earlier : record.arrivals) {
    compare(earlier, arrival);
    compare(arrival, earlier);
    if (record.is_uniform) break;
  }
}

void CollectiveLedger::note_device(Record& record, const CollectiveCall& later) const {
  if (!later.event.has_tensor) return;
  const int number = compared_tensor(later).device();
  const auto device = static_cast<std::size_t>(number);
  const std::size_t known = std::max(device + 1, members_.size());
  if (record.rank_of_device.size() < known) record.rank_of_device.resize(known, -1);
  int& holder = record.rank_of_device[device];
  if (holder >= 0) {
    throw CollectiveError("KB-C011",
                          "ranks {} and {} both brought a tensor on device {} to {}; call "
                          "torch.ahbm.set_device(rank) before making tensors",
                          holder, member(later.rank).global_rank, number, later.event.function);
  }
  holder = member(later.rank).global_rank;
}

void CollectiveLedger::check_nobody_left(const Record& record) const {
  if (absent_count_ == 0) return;
  const std::uint64_t sequence = record.first.sequence();
  if (record.first.wait_all_ranks && !is_settled(sequence)) return;  // more may be missing
  for (const Member& absent : members_) {
    if (!cannot_call(absent, sequence)) continue;
    const auto refused = refused_.find(static_cast<int>(&absent - members_.data()));
    if (record.first.timeout_ms > 0) report_monitored_barrier(record);
    std::vector<int> waiting;
    for (const Arrival& arrival : record.arrivals) {
      waiting.push_back(member(arrival.rank).global_rank);
    }
    const int first = waiting.front();
    std::ranges::sort(waiting);
    throw DeadlockError(
        "KB-C002",
        fmt::format("rank {} {} {}#{}, which {} called{}\n  {}{}", absent.global_rank,
                    absent.absence == Absence::returned ? "finished without calling"
                                                        : "was never started, so it cannot call",
                    record.first.event.function, sequence, runtime::name_ranks(waiting),
                    refused == refused_.end() ? "" : "; its " + refused->second.what,
                    fmt::format("rank {} called {}", first, describe(record.first)),
                    describe_others(absent, sequence)),
        ExitCode::collective_misuse);
  }
}

// True if each member has called the collective, or never will.
bool CollectiveLedger::is_settled(std::uint64_t sequence) const {
  return std::ranges::all_of(members_, [&](const Member& member) {
    return member.next_sequence > sequence || cannot_call(member, sequence);
  });
}

// Names the other members that have not called it either: one line for those that still may, one
// for those that cannot.
std::string CollectiveLedger::describe_others(const Member& absent, std::uint64_t sequence) const {
  std::vector<int> may_call;
  std::vector<int> cannot;
  for (const Member& other : members_) {
    if (&other == &absent || other.next_sequence > sequence) continue;
    (other.absence == Absence::present ? may_call : cannot).push_back(other.global_rank);
  }
  std::string text;
  for (const auto& [ranks, state] : {std::pair(&may_call, "not called it yet"),
                                     std::pair(&cannot, "not called it either, and will not")}) {
    if (ranks->empty()) continue;
    std::ranges::sort(*ranks);
    text += fmt::format("\n  {} {} {}", runtime::name_ranks(*ranks),
                        ranks->size() == 1 ? "has" : "have", state);
  }
  return text;
}

// Words the error as gloo's monitoredBarrier does: it names all missing ranks with wait_all_ranks,
// else the first.
void CollectiveLedger::report_monitored_barrier(const Record& record) const {
  std::vector<int> missing;
  for (const Member& member : members_) {
    if (cannot_call(member, record.first.sequence())) missing.push_back(member.global_rank);
  }
  if (!record.first.wait_all_ranks) missing.resize(1);
  const int first = member(record.first.rank).global_rank;
  throw DeadlockError(
      "KB-C021",
      fmt::format("[Rank {}]: Rank{} {} failed to pass monitoredBarrier in {} ms\n  "
                  "rank {} called {}",
                  members_.front().global_rank, missing.size() == 1 ? "" : "s",
                  fmt::join(missing, ", "), record.first.timeout_ms, first, describe(record.first)),
      ExitCode::collective_misuse);
}

std::string_view CollectiveLedger::describe_absence(int rank) const {
  switch (member(rank).absence) {
    case Absence::returned:
      return "had returned";
    case Absence::never_started:
      return "was never started";
    case Absence::present:
      break;
  }
  return "";
}

std::vector<int> CollectiveLedger::missing(std::uint64_t sequence) const {
  std::vector<int> ranks;
  for (const Member& member : members_) {
    if (member.next_sequence <= sequence) ranks.push_back(member.global_rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

void CollectiveLedger::leave(int rank, bool was_started) {
  Absence& absence = members_.at(static_cast<std::size_t>(rank)).absence;
  absent_count_ += absence == Absence::present;
  absence = was_started ? Absence::returned : Absence::never_started;
  // Members that wait in any open collective learn at once that this one will never come.
  for (const Record& record : records_) check_nobody_left(record);
}

}  // namespace kernbench::distributed
