// The bare event queue, hold model: pop the earliest of n pending events, push one a delay later.
//
// Limit: 25 M holds/s with 1,000 pending (DESIGN.md 9), and the best structure of those that
// TIMING.md 5.2 compares, also with 16,384 pending.  Lattice delays are what a simulation has: a
// quarter are 0, the rest a few multiples of one value.  Random delays have no ties.

#include <algorithm>
#include <cstdint>
#include <map>
#include <queue>
#include <random>
#include <vector>

#include "sim_engine/core/event_queue.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace event_queue_benchmark {
namespace {

constexpr double kLimit = 25e6;
constexpr std::size_t kDelays = 4096;

enum Delays : std::int64_t { lattice, random };

std::vector<std::int64_t> make_delays(std::int64_t kind) {
  std::mt19937_64 draw(1);
  std::vector<std::int64_t> delays(kDelays);
  for (std::int64_t& delay : delays) {
    const auto drawn = static_cast<std::int64_t>(draw() >> 33);
    delay = kind == random ? 1 + drawn % 1'000'000 : drawn % 4 == 0 ? 0 : 500 * (1 + drawn % 16);
  }
  return delays;
}

struct Item {
  std::int64_t time = 0;
  std::uint64_t sequence = 0;
  sim::Event event;
};

bool earlier(const Item& a, const Item& b) {
  return a.time != b.time ? a.time < b.time : a.sequence < b.sequence;
}

// The simulator's own queue.
class OurQueue {
 public:
  void push(std::int64_t time, const sim::Event& event) { queue_.push(Time{time}, event); }
  sim::Event pop(std::int64_t& now) {
    const sim::Event event = queue_.pop();
    now = queue_.now().count();
    return event;
  }

 private:
  sim::EventQueue queue_;
};

class StdPriorityQueue {
 public:
  void push(std::int64_t time, const sim::Event& event) { heap_.push({time, next_++, event}); }
  sim::Event pop(std::int64_t& now) {
    const Item first = heap_.top();
    heap_.pop();
    now = first.time;
    return first.event;
  }

 private:
  struct Later {
    bool operator()(const Item& a, const Item& b) const { return earlier(b, a); }
  };
  std::priority_queue<Item, std::vector<Item>, Later> heap_;
  std::uint64_t next_ = 0;
};

class FourAryHeap {
 public:
  void push(std::int64_t time, const sim::Event& event) {
    std::size_t hole = heap_.size();
    const Item item{time, next_++, event};
    heap_.push_back(item);
    for (; hole > 0 && earlier(item, heap_[(hole - 1) / 4]); hole = (hole - 1) / 4) {
      heap_[hole] = heap_[(hole - 1) / 4];
    }
    heap_[hole] = item;
  }
  sim::Event pop(std::int64_t& now) {
    const Item first = heap_.front();
    const Item last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    now = first.time;
    return first.event;
  }

 private:
  void sink(const Item& item) {
    std::size_t hole = 0;
    for (std::size_t child = 1; child < heap_.size(); child = 4 * hole + 1) {
      std::size_t least = child;
      const std::size_t end = std::min(child + 4, heap_.size());
      for (std::size_t i = child + 1; i < end; ++i) {
        if (earlier(heap_[i], heap_[least])) least = i;
      }
      if (!earlier(heap_[least], item)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = item;
  }

  std::vector<Item> heap_;
  std::uint64_t next_ = 0;
};

// A map from time to a bin of events.
class MapOfBins {
 public:
  void push(std::int64_t time, const sim::Event& event) { bins_[time].events.push_back(event); }
  sim::Event pop(std::int64_t& now) {
    const auto first = bins_.begin();
    now = first->first;
    Bin& bin = first->second;
    const sim::Event event = bin.events[bin.next++];
    if (bin.next == bin.events.size()) bins_.erase(first);
    return event;
  }

 private:
  struct Bin {
    std::vector<sim::Event> events;
    std::size_t next = 0;
  };
  std::map<std::int64_t, Bin> bins_;
};

// Brown's calendar, its days of a fixed length that suits its number of events over a million.
class Calendar {
 public:
  void push(std::int64_t time, const sim::Event& event) {
    std::vector<Item>& day = days_[day_of(time)];
    const Item item{time, next_++, event};
    const auto place = std::find_if(day.rbegin(), day.rend(),
                                    [&](const Item& other) { return earlier(item, other); });
    day.insert(place.base(), item);  // the earliest is last
  }
  sim::Event pop(std::int64_t& now) {
    for (;; ++today_) {
      std::vector<Item>& day = days_[static_cast<std::size_t>(today_) % kDays];
      if (day.empty() || day.back().time / kLength != today_) continue;
      const Item first = day.back();
      day.pop_back();
      now = first.time;
      return first.event;
    }
  }

 private:
  static constexpr std::size_t kDays = 2048;
  static constexpr std::int64_t kLength = 500;
  static std::size_t day_of(std::int64_t time) {
    return static_cast<std::size_t>(time / kLength) % kDays;
  }

  std::vector<std::vector<Item>> days_ = std::vector<std::vector<Item>>(kDays);
  std::int64_t today_ = 0;
  std::uint64_t next_ = 0;
};

template <class Queue>
class Hold {
 public:
  Hold(std::int64_t kind, std::int64_t pending) : delays_(make_delays(kind)) {
    for (std::int64_t i = 0; i < pending; ++i) queue_.push(next_delay(), {});
  }
  void once() {
    std::int64_t now = 0;
    const sim::Event event = queue_.pop(now);
    queue_.push(now + next_delay(), event);
  }

 private:
  std::int64_t next_delay() { return delays_[next_++ % kDelays]; }

  Queue queue_;
  const std::vector<std::int64_t> delays_;
  std::size_t next_ = 0;
};

// Holds per second: the best of several rounds, since other work only ever slows down.
template <class Queue>
double best_rate(std::int64_t kind, std::int64_t pending) {
  constexpr int kHolds = 200'000;
  Hold<Queue> hold(kind, pending);
  double best = 0;
  for (int round = 0; round < 8; ++round) {
    best = std::max(best, kHolds / measure_seconds([&] {
                            for (int i = 0; i < kHolds; ++i) hold.once();
                          }));
  }
  return best;
}

double best_of_others(std::int64_t kind, std::int64_t pending) {
  return std::max({best_rate<StdPriorityQueue>(kind, pending),
                   best_rate<FourAryHeap>(kind, pending), best_rate<MapOfBins>(kind, pending),
                   best_rate<Calendar>(kind, pending)});
}

template <class Queue>
void event_queue(benchmark::State& state) {
  Hold<Queue> hold(state.range(0), state.range(1));
  const RateMeter meter;
  for (auto _ : state) hold.once();
  meter.report(state, static_cast<double>(state.iterations()), kLimit);
  if constexpr (std::is_same_v<Queue, OurQueue>) {
    state.counters["ratio_to_best_other"] = best_rate<OurQueue>(state.range(0), state.range(1)) /
                                            best_of_others(state.range(0), state.range(1));
  }
}

void both_delays(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"random", "pending"})->ArgsProduct({{lattice, random}, {1024, 16'384}});
}

BENCHMARK_TEMPLATE(event_queue, OurQueue)->Apply(both_delays);
BENCHMARK_TEMPLATE(event_queue, StdPriorityQueue)->Apply(both_delays);
BENCHMARK_TEMPLATE(event_queue, FourAryHeap)->Apply(both_delays);
BENCHMARK_TEMPLATE(event_queue, MapOfBins)->Apply(both_delays);
BENCHMARK_TEMPLATE(event_queue, Calendar)->Apply(both_delays);

}  // namespace
}  // namespace event_queue_benchmark

}  // namespace kernbench::micro
