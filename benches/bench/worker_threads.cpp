#include "benches/bench/worker_threads.h"

#include <system_error>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

// The other constructor has made the whole object, so whatever is thrown here ends its threads.
WorkerThreads::WorkerThreads(std::size_t count) : WorkerThreads() {
  try {
    while (threads_.size() < count) threads_.emplace_back([this] { queue_.run(); });
  } catch (const std::system_error& error) {
    why_not_more_ = error.code().message();
    if (threads_.empty()) {
      throw LimitError("KB-L003", "cannot start a thread: " + why_not_more_);
    }
  }
}

Every::Every(boost::asio::io_context& loop, std::chrono::milliseconds pause,
             std::function<void()> action)
    : timer_(loop), pause_(pause), action_(std::move(action)) {
  wait();
}

void Every::wait() {
  timer_.expires_after(pause_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    action_();
    wait();
  });
}

}  // namespace kernbench::benches
