// Says which operations come before an operation of a stream, by a vector clock over the streams of
// a rank.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>

namespace kernbench::runtime {

// Counts the operations of each stream that come before.
class StreamClock {
 public:
  void add(int stream, std::uint64_t count) {
    std::uint64_t& known = counts_[stream];
    known = std::max(known, count);
  }
  void add(const StreamClock& other) {
    for (const auto& [stream, count] : other.counts_) add(stream, count);
  }
  bool has(int stream, std::uint64_t number) const {
    const auto found = counts_.find(stream);
    return found != counts_.end() && number <= found->second;
  }

 private:
  std::map<int, std::uint64_t> counts_;
};

// An operation of a stream: the first is number 1.
struct StreamPosition {
  int stream = 0;
  std::uint64_t number = 0;
  std::shared_ptr<const StreamClock> before;  // what it follows

  bool follows(const StreamPosition& other) const {
    return before->has(other.stream, other.number);
  }
  // It, and all that comes before it.
  StreamClock upto() const {
    StreamClock clock = *before;
    clock.add(stream, number);
    return clock;
  }
};

}  // namespace kernbench::runtime
