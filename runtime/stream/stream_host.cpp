#include "runtime/stream/stream_host.h"

#include <algorithm>
#include <utility>

#include "runtime/stream/stream_queue.h"

namespace kernbench::runtime {

void StreamHost::note(std::shared_ptr<StreamQueue> stream) {
  if (busy_.size() >= let_go_at_) let_go();
  busy_.push_back(std::move(stream));
}

void StreamHost::let_go() {
  std::erase_if(busy_, [&](const std::shared_ptr<StreamQueue>& stream) {
    if (!stream->is_settled()) return false;
    ended_[stream->device()].add(stream->position().upto());
    stream->end_note();
    return true;
  });
  // A stream costs O(1) if half of them go at a time.
  let_go_at_ = std::max<std::size_t>(16, 2 * busy_.size());
}

}  // namespace kernbench::runtime
