// Threads that simulate the points of a sweep, and the loop of the thread that waits for them.

#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kernbench::benches {

// Performs what is posted, each at once if a thread is idle.  It must not throw.
class WorkerThreads {
 public:
  // Starts `count` threads, or as many as the host allows.  Throws LimitError KB-L003 if it allows
  // none.
  explicit WorkerThreads(std::size_t count);
  // Waits until all that was posted is done.
  ~WorkerThreads() { work_.reset(); }
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  std::size_t size() const { return threads_.size(); }
  const std::string& why_not_more() const { return why_not_more_; }  // "" if all could be started

  void post(std::function<void()> task) { boost::asio::post(queue_, std::move(task)); }

 private:
  WorkerThreads() = default;

  boost::asio::io_context queue_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ =
      boost::asio::make_work_guard(queue_);
  std::string why_not_more_;
  std::vector<std::jthread> threads_;  // ends before what it uses
};

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
