#include "sim_engine/core/engine.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <random>

#include "sim_engine/base/check.h"

namespace kernbench::sim::engine_test {

namespace {

// Records the arguments of the events that reach it.
struct Recorder {
  Engine& engine;
  std::vector<std::pair<std::int64_t, std::uint64_t>> seen;  // (time, argument)

  void record(std::uint64_t argument) { seen.emplace_back(engine.now().count(), argument); }
  void record_and_follow(std::uint64_t argument) {
    record(argument);
    engine.schedule<&Recorder::record>(Time{0}, this, argument + 100);
  }
};

}  // namespace

TEST_CASE("events run in order of time, and equal times in order of scheduling", "[engine]") {
  Engine engine;
  Recorder recorder{engine, {}};
  engine.schedule<&Recorder::record>(Time{20}, &recorder, 1);
  engine.schedule<&Recorder::record>(Time{10}, &recorder, 2);
  engine.schedule<&Recorder::record>(Time{20}, &recorder, 3);
  engine.schedule<&Recorder::record>(Time{0}, &recorder, 4);
  engine.run();
  using Seen = std::vector<std::pair<std::int64_t, std::uint64_t>>;
  CHECK(recorder.seen == Seen{{0, 4}, {10, 2}, {20, 1}, {20, 3}});
  CHECK(engine.event_count() == 4);
}

namespace {

// The order in which events of one instant, and their followers, run.
std::vector<std::uint64_t> shuffled_order(std::uint64_t seed) {
  Engine engine;
  engine.shuffle_ties(seed);
  Recorder recorder{engine, {}};
  for (std::uint64_t i = 0; i < 3; ++i) {
    engine.schedule<&Recorder::record_and_follow>(Time{10}, &recorder, i);
  }
  engine.schedule<&Recorder::record>(Time{9}, &recorder, 1000);
  engine.cancel(engine.schedule(Time{10}, Engine::call<&Recorder::record>(&recorder, 2000)));
  engine.run();
  CHECK(recorder.seen.front() == std::pair<std::int64_t, std::uint64_t>{9, 1000});
  std::vector<std::uint64_t> order;
  for (const auto& [time, argument] : recorder.seen) {
    if (time == 10) order.push_back(argument);
  }
  return order;
}

}  // namespace

TEST_CASE("shuffled ties run in every order in which causes come first", "[engine][ties]") {
  std::map<std::vector<std::uint64_t>, int> times_seen;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const std::vector<std::uint64_t> order = shuffled_order(seed);
    if (seed % 500 == 0) CHECK(shuffled_order(seed) == order);
    ++times_seen[order];
  }
  // An eighth of all 6! orders has each follower behind its cause.
  CHECK(times_seen.size() == 90);
  for (const auto& [order, count] : times_seen) {
    CHECK(order.size() == 6);
    for (std::uint64_t i = 0; i < 3; ++i) {
      CHECK(std::ranges::find(order, i) < std::ranges::find(order, i + 100));
    }
  }
}

namespace {

// Takes the events that it is told, then the first ones.
struct ListedChooser final : TieChooser {
  std::vector<std::size_t> choices = {};
  std::vector<std::uint64_t> names = {};  // of what was taken
  std::size_t taken = 0;

  std::size_t choose(std::span<const Due> due) override {
    const std::size_t chosen = taken < choices.size() ? choices[taken] : 0;
    ++taken;
    names.push_back(due[chosen].name);
    return chosen;
  }
};

std::vector<std::uint64_t> chosen_order(ListedChooser* chooser) {
  Engine engine;
  if (chooser != nullptr) engine.choose_ties(*chooser, std::nullopt);
  Recorder recorder{engine, {}};
  for (std::uint64_t i = 0; i < 3; ++i) {
    engine.schedule<&Recorder::record_and_follow>(Time{10}, &recorder, i);
    engine.schedule<&Recorder::record_and_follow>(Time{20}, &recorder, 10 + i);
  }
  engine.cancel(engine.schedule(Time{10}, Engine::call<&Recorder::record>(&recorder, 2000)));
  engine.schedule_last(Engine::call<&Recorder::record_and_follow>(&recorder, 20));
  engine.schedule_last(Engine::call<&Recorder::record>(&recorder, 21));
  engine.run();
  std::vector<std::uint64_t> order;
  for (const auto& [time, argument] : recorder.seen) order.push_back(argument);
  return order;
}

}  // namespace

TEST_CASE("a chooser decides each tie; the first of those that are due is the usual one",
          "[engine][ties]") {
  ListedChooser first;
  const std::vector<std::uint64_t> usual = chosen_order(nullptr);
  CHECK(chosen_order(&first) == usual);
  CHECK(usual.size() == 15);
  ListedChooser other;
  other.choices = {0, 0, 0, 2, 2};  // of 0, 1, 2, then of 0, 1 and 102
  const std::vector<std::uint64_t> order = chosen_order(&other);
  CHECK(std::vector(order.begin() + 3, order.begin() + 5) == std::vector<std::uint64_t>{2, 102});
  // The same events, by name, in another order.
  std::ranges::sort(first.names);
  std::ranges::sort(other.names);
  CHECK(first.names == other.names);
  CHECK(std::ranges::adjacent_find(first.names) == first.names.end());
}

TEST_CASE("what waits for a standstill waits for all else, and for what its like have caused",
          "[engine][ties]") {
  const auto run = [](TieChooser* chooser) {
    Engine engine;
    if (chooser != nullptr) engine.choose_ties(*chooser, std::nullopt);
    Recorder recorder{engine, {}};
    for (std::uint64_t i = 0; i < 3; ++i) {
      engine.schedule_at_standstill(Engine::call<&Recorder::record_and_follow>(&recorder, i), i);
    }
    CHECK(engine.is_at_standstill());
    engine.schedule<&Recorder::record>(Time{20}, &recorder, 20);
    engine.cancel(engine.schedule(Time{30}, Engine::call<&Recorder::record>(&recorder, 2000)));
    CHECK_FALSE(engine.is_at_standstill());
    engine.run();
    std::vector<std::uint64_t> order;
    for (const auto& [time, argument] : recorder.seen) order.push_back(argument);
    CHECK(engine.is_idle());
    CHECK_FALSE(engine.is_at_standstill());
    return order;
  };
  using Order = std::vector<std::uint64_t>;
  ListedChooser chooser;
  chooser.choices = {0, 2};  // 20, then the last of the three
  CHECK(run(nullptr) == Order{20, 0, 100, 1, 101, 2, 102});
  CHECK(run(&chooser) == Order{20, 2, 102, 0, 100, 1, 101});
}

TEST_CASE("the time of the next event is known, also while events run", "[engine]") {
  Engine engine;
  struct Watcher {
    Engine& engine;
    std::vector<std::int64_t> next;
    void look(std::uint64_t follows) {
      if (follows != 0) engine.schedule<&Watcher::look>(Time{0}, this);
      if (!engine.is_idle()) next.push_back(engine.next_time().count());
    }
  } watcher{engine, {}};
  for (const std::int64_t time : {30, 20, 20})
    engine.schedule<&Watcher::look>(Time{time}, &watcher);
  engine.schedule<&Watcher::look>(Time{10}, &watcher, 1);
  CHECK(engine.next_time() == Time{10});
  engine.run();
  CHECK(watcher.next == std::vector<std::int64_t>{10, 20, 20, 30});
}

TEST_CASE("an event scheduled for now runs after those that were already due now", "[engine]") {
  Engine engine;
  Recorder recorder{engine, {}};
  engine.schedule<&Recorder::record_and_follow>(Time{5}, &recorder, 1);
  engine.schedule<&Recorder::record>(Time{5}, &recorder, 2);
  engine.run();
  using Seen = std::vector<std::pair<std::int64_t, std::uint64_t>>;
  CHECK(recorder.seen == Seen{{5, 1}, {5, 2}, {5, 101}});
}

TEST_CASE("a long random schedule runs in the order of a stable sort", "[engine]") {
  std::mt19937_64 random(7);
  for (const std::uint64_t distinct_times : {1u, 3u, 50u, 5'000u, 1'000'000u}) {
    Engine engine;
    Recorder recorder{engine, {}};
    std::vector<std::pair<std::int64_t, std::uint64_t>> expected;
    for (std::uint64_t i = 0; i < 5'000; ++i) {
      const auto time = static_cast<std::int64_t>(random() % distinct_times) * 500;
      expected.emplace_back(time, i);
      engine.schedule<&Recorder::record>(Time{time}, &recorder, i);
    }
    std::ranges::stable_sort(expected, {}, &std::pair<std::int64_t, std::uint64_t>::first);
    engine.run();
    CHECK(recorder.seen == expected);
  }
}

TEST_CASE("events that schedule events keep the total order of a reference queue", "[engine]") {
  // Each event schedules two more at random distances.  The reference is a plain ordered map.
  struct Cascade {
    Engine& engine;
    std::mt19937_64 random{3};
    std::uint64_t next = 0;
    std::map<std::pair<std::int64_t, std::uint64_t>, std::uint64_t> pending;  // (time, order)

    void add(std::int64_t delay) {
      pending.emplace(std::pair{engine.now().count() + delay, next}, next);
      engine.schedule<&Cascade::happen>(Time{delay}, this, next++);
    }
    void happen(std::uint64_t id) {
      REQUIRE(pending.begin()->second == id);
      REQUIRE(pending.begin()->first.first == engine.now().count());
      pending.erase(pending.begin());
      if (next > 20'000) return;
      for (int i = 0; i < 2; ++i) add(static_cast<std::int64_t>(random() % 4) * 250);
    }
  };
  Engine engine;
  Cascade cascade{engine, {}, 0, {}};
  cascade.add(1);
  engine.run();
  CHECK(cascade.pending.empty());
  CHECK(cascade.next > 20'000);
}

TEST_CASE("the fingerprint tells what happened on which SIP, in any order", "[engine]") {
  using Happened = std::vector<std::pair<std::uint64_t, int>>;  // hashes, and their SIPs
  const auto fingerprint_of = [](const Happened& happened, std::vector<int> stand_ins = {}) {
    Engine engine;
    engine.set_stand_ins(std::move(stand_ins));
    for (const auto& [hash, sip] : happened) engine.fold(hash, sip);
    return engine.fingerprint();
  };
  CHECK(fingerprint_of({{1, 0}, {2, 0}}) == fingerprint_of({{2, 0}, {1, 0}}));
  CHECK(fingerprint_of({{1, 0}, {2, 0}}) != fingerprint_of({{1, 0}, {3, 0}}));
  CHECK(fingerprint_of({{1, 0}, {2, 1}}) != fingerprint_of({{2, 0}, {1, 1}}));
  CHECK(fingerprint_of({{1, 0}, {1, 0}}) != fingerprint_of({{1, 0}}));
  const Happened each = {{7, 0}, {8, 1}, {7, 2}, {8, 3}};
  CHECK(fingerprint_of({{7, 0}, {8, 1}}, {0, 1, 0, 1}) == fingerprint_of(each));
  CHECK(fingerprint_of({{7, 0}, {9, 1}}, {0, 1, 0, 1}) != fingerprint_of(each));
}

TEST_CASE("a cancelled event does not happen, and the clock does not stop for it", "[engine]") {
  Engine engine;
  Recorder recorder{engine, {}};
  std::vector<EventHandle> handles;
  for (const std::int64_t time : {0, 10, 10, 10, 20, 3'000'000}) {
    const auto id = static_cast<std::uint64_t>(handles.size());
    handles.push_back(engine.schedule(Time{time}, Engine::call<&Recorder::record>(&recorder, id)));
  }
  for (const std::size_t cancelled : {0, 2, 4, 5}) engine.cancel(handles[cancelled]);
  engine.run();
  CHECK(engine.now() == Time{10});
  CHECK(recorder.seen.size() == 2);
  engine.schedule<&Recorder::record>(Time{1}, &recorder, 6);  // earlier than those
  engine.run();
  CHECK(engine.now() == Time{11});
  CHECK(engine.event_count() == 3);
}

TEST_CASE("run ends after so many events, and goes on where it ended", "[engine]") {
  const std::atomic<bool> stop = false;
  Engine engine;
  Recorder recorder{engine, {}};
  for (std::uint64_t i = 1; i <= 3; ++i) {
    engine.schedule<&Recorder::record>(Time{10 * static_cast<std::int64_t>(i)}, &recorder, i);
  }
  CHECK_FALSE(engine.run(stop, 2));
  CHECK(engine.now() == Time{20});
  CHECK_FALSE(engine.is_idle());
  CHECK_FALSE(engine.run(stop, 2));
  CHECK(engine.now() == Time{30});
  CHECK(engine.is_idle());
}

TEST_CASE("run stops as soon as its flag is set, and clear drops the rest", "[engine]") {
  struct Stopper {
    std::atomic<bool> stop = false;
    void set() { stop = true; }
  } stopper;
  Engine engine;
  Recorder recorder{engine, {}};
  engine.schedule<&Stopper::set>(Time{10}, &stopper);
  engine.schedule<&Recorder::record>(Time{20}, &recorder, 1);
  CHECK(engine.run(stopper.stop));
  CHECK(engine.now() == Time{10});
  engine.clear();
  CHECK_FALSE(engine.step());
  CHECK(engine.now() == Time{10});
  CHECK(recorder.seen.empty());

  engine.schedule<&Recorder::record>(Time{10}, &recorder, 2);  // the time that was dropped
  engine.run();
  CHECK(recorder.seen.size() == 1);
}

TEST_CASE("steps, cascades and clear in any mix agree with an ordered multimap",
          "[engine][random]") {
  // Each event schedules up to two more.  Times reach beyond 2^40 ps.  The reference keeps equal
  // keys in the order of insertion.
  struct Mix {
    Engine engine;
    std::mt19937_64 random;
    std::uint64_t next = 0;
    std::uint64_t executed = 0;
    std::multimap<std::int64_t, std::uint64_t> pending;

    void add() {
      static constexpr std::int64_t kDelays[] = {0, 0, 1, 250, 500, 1'000'000, (1LL << 40) + 3};
      std::int64_t delay = kDelays[random() % std::size(kDelays)];
      if (random() % 8 == 0) delay = static_cast<std::int64_t>(random() % (1LL << 45));
      pending.emplace(engine.now().count() + delay, next);
      engine.schedule<&Mix::happen>(Time{delay}, this, next++);
    }
    void happen(std::uint64_t id) {
      REQUIRE(pending.begin()->second == id);
      REQUIRE(pending.begin()->first == engine.now().count());
      pending.erase(pending.begin());
      ++executed;
      for (auto more = random() % 3; more > 0 && pending.size() < 3000; --more) add();
      if (random() % 4096 == 0) clear();  // from inside an event
    }
    void clear() {
      engine.clear();
      pending.clear();
    }
  };
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    Mix mix{.engine = {}, .random = std::mt19937_64(seed), .pending = {}};
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 300; ++i) mix.add();
      for (int i = 0; i < 1'000; ++i) {
        REQUIRE(mix.engine.step() == !(mix.executed == mix.next && mix.pending.empty()));
        if (mix.pending.empty()) mix.add();
      }
      if (round % 5 == 4) mix.clear();
    }
    const std::uint64_t events = mix.engine.event_count();
    CHECK(events == mix.executed);
    CHECK(mix.engine.now() > Time{1LL << 40});
  }
}

TEST_CASE("the order of equal times holds when they lie in several bins", "[engine]") {
  // Times that evict each other from the table open several bins for one time.
  for (const std::int64_t longest : {2, 100, 5'000, 3'000'000}) {
    EventQueue queue;
    std::mt19937_64 random(static_cast<std::uint64_t>(longest));
    std::multimap<std::int64_t, std::uint64_t> pending;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      const auto time = queue.now().count() + static_cast<std::int64_t>(random() >> 1) % longest;
      pending.emplace(time, i);
      queue.push(Time{time}, {nullptr, nullptr, i});
      if (i < 2'000) continue;
      REQUIRE(queue.pop().argument == pending.begin()->second);
      REQUIRE(queue.now().count() == pending.begin()->first);
      pending.erase(pending.begin());
    }
    CHECK(queue.size() == pending.size());
  }
}

TEST_CASE("an event for the past is refused, and the queue stays whole", "[engine]") {
  Engine engine;
  Recorder recorder{engine, {}};
  engine.schedule<&Recorder::record>(Time{10}, &recorder, 1);
  engine.schedule<&Recorder::record>(Time{20}, &recorder, 2);
  engine.run();
  for (const std::int64_t back : {-10, -5, -1}) {  // also to a time that there was
    CHECK_THROWS_AS(engine.schedule<&Recorder::record>(Time{back}, &recorder), InternalError);
  }
  CHECK_FALSE(engine.step());
  engine.schedule<&Recorder::record>(Time{5}, &recorder, 3);
  engine.run();
  CHECK(recorder.seen.size() == 3);
}

}  // namespace kernbench::sim::engine_test
