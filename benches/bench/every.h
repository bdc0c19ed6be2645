// An action that the event loop of a waiting thread repeats.

#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>

namespace kernbench::benches {

// Calls an action on a loop after each pause.
class Every {
 public:
  // REQUIRES: the loop does not run when this has ended
  Every(boost::asio::io_context& loop, std::chrono::milliseconds pause,
        std::function<void()> action);

 private:
  void wait();

  boost::asio::steady_timer timer_;
  const std::chrono::milliseconds pause_;
  const std::function<void()> action_;
};

}  // namespace kernbench::benches
