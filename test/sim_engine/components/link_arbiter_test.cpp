// In which order transfers that meet on a link are served, and when.

#include "sim_engine/components/link_arbiter.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace kernbench::sim::link_arbiter_test {

namespace {

// A link whose packets take 10 ps.
class LinkUnderTest {
 public:
  // A transfer that arrives.
  struct Arrival {
    std::string name;
    Priority priority;
    std::int64_t at;
    std::int64_t busy;
  };
  using Begins = std::vector<std::pair<std::string, std::int64_t>>;

  // Lets them pass; `arrivals` are in the order of their times, the first finds the link free.
  explicit LinkUnderTest(std::vector<Arrival> arrivals) : arrivals_(std::move(arrivals)) {
    occupy(arrivals_.front());
    for (std::size_t i = 1; i < arrivals_.size(); ++i) {
      Arrival& next = arrivals_[i];
      decide_until(Time{next.at - 1});
      now_ = Time{next.at};
      arbiter_.add({&next, next.priority, Time{next.busy}});
    }
    decide_until(Time{1'000'000});
  }

  Begins begins;  // when each began, in this order

 private:
  void occupy(Arrival& first) {
    arbiter_.occupy({&first, first.priority, Time{first.busy}}, Time{first.at});
    begins.emplace_back(first.name, first.at);
    now_ = Time{first.at};
  }
  void decide_until(Time end) {
    while (now_ <= end) {
      take_ended();
      while (void* const begun = arbiter_.begin_next(now_)) {
        begins.emplace_back(static_cast<Arrival*>(begun)->name, now_.count());
        take_ended();
      }
      if (arbiter_.next_decision() > end) break;
      now_ = arbiter_.next_decision();
    }
    if (end > now_) now_ = end;
    take_ended();
  }
  void take_ended() {
    while (arbiter_.take_ended(now_) != nullptr) {
    }
  }

  std::vector<Arrival> arrivals_;
  LinkArbiter arbiter_{Time{10}};
  Time now_{0};
};

using Begins = LinkUnderTest::Begins;
constexpr Priority kExpress = Priority::express;
constexpr Priority kCommunication = Priority::communication;
constexpr Priority kBulk = Priority::bulk;

}  // namespace

TEST_CASE("transfers of a priority pass in the order of their arrival", "[arbiter]") {
  const LinkUnderTest link({{"a", kBulk, 0, 100}, {"b", kBulk, 5, 30}, {"c", kBulk, 6, 10}});
  CHECK(link.begins == Begins{{"a", 0}, {"b", 100}, {"c", 130}});
}

TEST_CASE("a higher priority begins at the end of a packet, and what it interrupts goes on",
          "[arbiter]") {
  const LinkUnderTest link(
      {{"bulk", kBulk, 0, 100}, {"short", kExpress, 12, 5}, {"next", kBulk, 13, 1}});
  CHECK(link.begins == Begins{{"bulk", 0}, {"short", 20}, {"next", 105}});
}

TEST_CASE("in the last packet nobody goes ahead", "[arbiter]") {
  const LinkUnderTest link({{"bulk", kBulk, 0, 100}, {"short", kExpress, 91, 5}});
  CHECK(link.begins == Begins{{"bulk", 0}, {"short", 100}});
}

TEST_CASE("who has gone ahead leaves the link for as long, to the end of a packet", "[arbiter]") {
  // The first ends at 40, so the second may begin at 60: the packets begin at 40.
  const LinkUnderTest link({{"bulk", kBulk, 0, 200},
                            {"first", kCommunication, 12, 20},
                            {"second", kCommunication, 13, 20},
                            {"short", kExpress, 41, 3}});
  CHECK(link.begins == Begins{{"bulk", 0}, {"first", 20}, {"short", 50}, {"second", 63}});
}

TEST_CASE("short transfers go ahead together, up to the length of a packet", "[arbiter]") {
  const LinkUnderTest link({{"bulk", kBulk, 0, 100},
                            {"a", kExpress, 1, 4},
                            {"b", kExpress, 2, 4},
                            {"c", kExpress, 3, 4}});
  // a and b end at 18; the third may begin at 26, and a packet ends at 28.
  CHECK(link.begins == Begins{{"bulk", 0}, {"a", 10}, {"b", 14}, {"c", 28}});
}

TEST_CASE("one that has gone ahead gives way itself, and both that it delays end later",
          "[arbiter]") {
  const LinkUnderTest link({{"bulk", kBulk, 0, 100},
                            {"middle", kCommunication, 1, 50},
                            {"short", kExpress, 31, 4},
                            {"late", kBulk, 32, 1}});
  CHECK(link.begins == Begins{{"bulk", 0}, {"middle", 10}, {"short", 40}, {"late", 154}});
}

TEST_CASE("a lower priority has half of a link that a higher one would fill", "[arbiter]") {
  std::vector<LinkUnderTest::Arrival> arrivals = {{"bulk", kBulk, 0, 400}};
  for (int i = 0; i < 100; ++i) arrivals.push_back({"message", kCommunication, 1, 10});
  arrivals.push_back({"second", kBulk, 2, 1});
  const LinkUnderTest link(arrivals);
  const auto second = std::find_if(link.begins.begin(), link.begins.end(),
                                   [](const auto& begin) { return begin.first == "second"; });
  CHECK(second->second == 800);  // 400 of the first, and 40 messages of 10
}

}  // namespace kernbench::sim::link_arbiter_test
