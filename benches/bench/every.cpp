#include "benches/bench/every.h"

#include <utility>

namespace kernbench::benches {

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
