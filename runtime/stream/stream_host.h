// What a rank, or the single driver, knows of its streams.

#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "runtime/stream/stream_clock.h"

namespace kernbench::runtime {

class StreamQueue;

class StreamHost {
 public:
  // Returns what the host knows to be done; all that it issues from now on follows that.
  const StreamClock& knows() const { return knows_; }
  void know(const StreamClock& done) { knows_.add(done); }

  // Notes that a stream has something to do.  From then on the host keeps the stream, until it
  // knows that all is done and that nothing has failed.
  void note(std::shared_ptr<StreamQueue> stream);
  // The streams that were noted and are kept, in that order.
  const std::vector<std::shared_ptr<StreamQueue>>& busy() const { return busy_; }
  // Lets go of streams that are done.  It learns of their ends, but knows of them only from the
  // next know_ended() on: what races must not depend on times.
  void let_go();
  void know_ended(int device) { knows_.add(ended_[device]); }

 private:
  StreamClock knows_;
  std::vector<std::shared_ptr<StreamQueue>> busy_;
  std::size_t let_go_at_ = 16;        // so many
  std::map<int, StreamClock> ended_;  // by device: what let_go() has met
};

}  // namespace kernbench::runtime
