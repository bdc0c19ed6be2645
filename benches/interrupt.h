// SIGINT and SIGTERM while a bench runs.

#pragma once

#include <functional>
#include <memory>

namespace kernbench::benches {

// While it exists, the first signal calls `on_signal` on another thread, and a second one ends the
// process at once.
class InterruptWatch {
 public:
  explicit InterruptWatch(std::function<void()> on_signal);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  class Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace kernbench::benches
