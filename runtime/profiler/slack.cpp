#include "runtime/profiler/slack.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

namespace kernbench::runtime {

namespace {

using Kind = RunSpan::Kind;

// The least of the values that belong to a moment or to later ones (a Fenwick tree).
class LeastFrom {
 public:
  explicit LeastFrom(std::vector<Time> moments) : moments_(std::move(moments)) {
    std::ranges::sort(moments_);
    least_.resize(moments_.size() + 1, Time::max());
  }

  // REQUIRES: `at` is one of the moments
  void lower(Time at, Time value) {
    for (std::size_t i = from_the_end(at); i < least_.size(); i += i & -i) {
      least_[i] = std::min(least_[i], value);
    }
  }

  Time from(Time at) const {
    Time least = Time::max();
    for (std::size_t i = from_the_end(at); i > 0; i -= i & -i) least = std::min(least, least_[i]);
    return least;
  }

 private:
  // Counts the moments that are not before `at`.
  std::size_t from_the_end(Time at) const {
    return static_cast<std::size_t>(moments_.end() - std::ranges::lower_bound(moments_, at));
  }

  std::vector<Time> moments_;
  std::vector<Time> least_;
};

// The latest times at which the operations of one device may begin, and may be issued.
struct Device {
  LeastFrom begun;
  LeastFrom issued;
};

// Calls that are late together: one operation, or a collective or message of several ranks.
struct Call {
  std::vector<std::size_t> spans;
  Time last_start{0};
  Time slack = Time::max();
};

bool is_operation_in(const TimedPart& part, const RunSpan& span) {
  const bool is_call =
      span.kind == Kind::kernel || span.kind == Kind::collective || span.kind == Kind::message;
  return is_call && (span.end > part.from || span.start >= part.from) && span.end <= part.to;
}

Time known_at(const RunSpan& span) {
  return std::max(span.end, span.returned);
}

std::vector<Call> collect_calls(const RunLog& log, const TimedPart& part) {
  std::vector<Call> calls;
  std::map<std::tuple<Kind, int, std::int64_t>, std::size_t> shared;
  for (std::size_t i = 0; i < log.spans().size(); ++i) {
    const RunSpan& span = log.spans()[i];
    if (!is_operation_in(part, span)) continue;
    const auto number =
        span.kind == Kind::message ? static_cast<std::int64_t>(span.flow) : span.sequence;
    const auto [known, is_new] =
        shared.emplace(std::tuple(span.kind, span.group, number), calls.size());
    const bool is_own = span.kind == Kind::kernel || number < 0 || is_new;
    if (is_own) calls.emplace_back();
    Call& call = is_own ? calls.back() : calls[known->second];
    call.spans.push_back(i);
    call.last_start = std::max(call.last_start, span.start);
  }
  std::ranges::stable_sort(calls, std::ranges::greater{}, &Call::last_start);
  return calls;
}

std::map<int, Device> collect_devices(const RunLog& log, const TimedPart& part) {
  std::map<int, std::pair<std::vector<Time>, std::vector<Time>>> moments;
  for (const RunSpan& span : log.spans()) {
    if (!is_operation_in(part, span)) continue;
    moments[span.device].first.push_back(span.start);
    moments[span.device].second.push_back(span.issued);
  }
  std::map<int, Device> devices;
  for (auto& [device, lists] : moments) {
    devices.emplace(device,
                    Device{LeastFrom(std::move(lists.first)), LeastFrom(std::move(lists.second))});
  }
  return devices;
}

class BackwardPass {
 public:
  BackwardPass(const RunLog& log, const TimedPart& part)
      : log_(log),
        end_(part.to),
        calls_(collect_calls(log, part)),
        devices_(collect_devices(log, part)) {}

  // Repeated until nothing changes, since of a collective whose ranks leave it at different times
  // what follows on one rank may begin before another rank calls.
  void run(std::vector<Time>& slacks) {
    while (pass()) {
    }
    for (const Call& call : calls_) {
      for (const std::size_t span : call.spans) slacks[span] = call.slack + skew(call, span);
    }
  }

 private:
  bool pass() {
    bool has_changed = false;
    for (Call& call : calls_) {
      const Time slack = compute_slack(call);
      if (slack == call.slack) continue;
      call.slack = slack;
      has_changed = true;
      for (const std::size_t i : call.spans) {
        const RunSpan& span = log_.spans()[i];
        const Time late = slack + skew(call, i);
        devices_.at(span.device).begun.lower(span.start, span.start + late);
        devices_.at(span.device).issued.lower(span.issued, span.issued + late);
      }
    }
    return has_changed;
  }

  // The time by which the last rank has called later than this one.
  Time skew(const Call& call, std::size_t span) const {
    return call.last_start - log_.spans()[span].start;
  }

  Time compute_slack(const Call& call) const {
    Time slack = Time::max();
    for (const std::size_t i : call.spans) {
      const RunSpan& span = log_.spans()[i];
      const Device& device = devices_.at(span.device);
      const Time known = known_at(span);
      slack = std::min({slack, std::max(end_ - known, Time{0}),
                        device.begun.from(span.end) - span.end, device.issued.from(known) - known});
    }
    return slack;
  }

  const RunLog& log_;
  const Time end_;
  std::vector<Call> calls_;
  std::map<int, Device> devices_;
};

}  // namespace

std::vector<Time> compute_slacks(const RunLog& log, const std::vector<TimedPart>& parts) {
  std::vector<Time> slacks(log.spans().size(), Time{0});
  for (const TimedPart& part : parts) BackwardPass(log, part).run(slacks);
  return slacks;
}

}  // namespace kernbench::runtime
