#include "benches/interrupt.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace asio = boost::asio;

class InterruptWatch::Listener {
 public:
  explicit Listener(std::function<void()> on_signal)
      : on_signal_(std::move(on_signal)), signals_(io_, SIGINT, SIGTERM) {
    listen();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Listener() {
    io_.stop();
    thread_.join();
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  void listen() {
    signals_.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      if (is_second_) std::_Exit(static_cast<int>(ExitCode::interrupted));
      is_second_ = true;
      on_signal_();
      listen();
    });
  }

  const std::function<void()> on_signal_;
  asio::io_context io_;
  asio::signal_set signals_;
  bool is_second_ = false;
  std::thread thread_;
};

InterruptWatch::InterruptWatch(std::function<void()> on_signal)
    : listener_(std::make_unique<Listener>(std::move(on_signal))) {}

InterruptWatch::~InterruptWatch() = default;

}  // namespace kernbench::benches
