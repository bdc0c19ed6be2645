#include "benches/bench/point_workers.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "benches/bench/console.h"
#include "runtime/guards/process_watch.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using runtime::ProcessWatch;

struct PointWorkers::Child {
  explicit Child(asio::io_context& loop) : socket(loop) {}

  pid_t process = 0;
  stream_protocol::socket socket;
  std::string received = {};
  std::optional<std::size_t> point = {};  // that it simulates
  bool is_called_off = false;
};

namespace {

using Kind = TeamMessage::Kind;

std::string describe_end(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("killed by signal {} ({})", signal, ::strsignal(signal));
}

int wait_for_end(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

TeamMessage to_message(std::size_t point, const PointEnd& end) {
  if (!end.crash.empty()) return {.kind = Kind::crashed, .number = point, .text = end.crash};
  std::string line;
  if (end.outcome) {
    line = to_line({.inputs = 0, .point = std::to_string(point), .outcome = *end.outcome})
               .value_or("");
  }
  return {.kind = line.empty() ? Kind::failed : Kind::outcome, .number = point, .text = line};
}

PointEnd to_end(const TeamMessage& message) {
  switch (message.kind) {
    case Kind::failed:
      return {};
    case Kind::crashed:
      return {.crash = message.text};
    default: {
      std::optional<NamedOutcome> named = parse_line(message.text);
      KB_CHECK(message.kind == Kind::outcome && named, "process {} has sent '{}'", message.peer,
               to_text(message));
      return {.outcome = std::move(named->outcome)};
    }
  }
}

PointWorkers::PointWorkers(asio::io_context& loop, Limits limits, PointCalls calls)
    : loop_(loop), limits_(limits), calls_(std::move(calls)) {}

PointWorkers::~PointWorkers() {
  call_off_from(0);
  for (const Child& child : children_) {
    ProcessWatch::instance().forget_child(child.process);
    ::kill(child.process, SIGKILL);
    wait_for_end(child.process);
  }
}

bool PointWorkers::has_room(std::size_t point) const {
  if (running_.empty()) return true;
  if (running_.size() >= limits_.count) return false;
  Bytes bytes = calls_.memory(point);
  for (const std::size_t other : running_) bytes += calls_.memory(other);
  return limits_.memory == 0 || bytes <= limits_.memory;
}

bool PointWorkers::start(std::size_t point, bool here) {
  Child* const child = here || !limits_.has_processes ? nullptr : idle_child();
  if (child == nullptr && !here && limits_.has_processes) return false;
  if (child == nullptr) {
    start_thread(point);
  } else {
    child->point = point;
    boost::system::error_code ignored;  // if the child has died, its socket tells
    asio::write(child->socket, asio::buffer(to_text({.kind = Kind::take, .number = point}) + '\n'),
                ignored);
  }
  running_.insert(point);
  return true;
}

void PointWorkers::start_thread(std::size_t point) {
  try {
    threads_[point] = std::jthread([this, point, work = calls_.begin(point)] {
      asio::post(loop_, [this, point, end = work()]() mutable {
        threads_.erase(point);
        finish(point, std::move(end));
      });
    });
  } catch (const std::system_error& error) {
    throw LimitError("KB-L003", "cannot start a thread: " + error.code().message());
  }
}

PointWorkers::Child* PointWorkers::idle_child() {
  const auto idle =
      std::ranges::find_if(children_, [](const Child& child) { return !child.point; });
  return idle == children_.end() ? fork_child() : &*idle;
}

// The child uses nothing of the loop, whose descriptors it shares with this process.
PointWorkers::Child* PointWorkers::fork_child() {
  Child& child = children_.emplace_back(loop_);
  stream_protocol::socket other(loop_);
  boost::system::error_code error;
  asio::local::connect_pair(child.socket, other, error);
  if (error) return cannot_fork(error.message());
  std::fflush(nullptr);  // else the child would print it too
  const pid_t parent = ::getpid();
  child.process = ::fork();
  if (child.process < 0) return cannot_fork(std::strerror(errno));
  if (child.process == 0) serve(other.native_handle(), parent);
  ProcessWatch::instance().add_child(child.process);
  listen(child);
  return &child;
}

PointWorkers::Child* PointWorkers::cannot_fork(const std::string& why) {
  children_.pop_back();
  why_not_more_ = why;
  limits_.count = std::max<std::size_t>(running_.size(), 1);
  limits_.has_processes = !children_.empty();
  return nullptr;
}

void PointWorkers::listen(Child& child) {
  asio::async_read_until(child.socket, asio::dynamic_buffer(child.received), '\n',
                         [this, &child](const boost::system::error_code& error, std::size_t size) {
                           if (error) return bury(child);
                           const std::string line = child.received.substr(0, size - 1);
                           child.received.erase(0, size);
                           listen(child);
                           hear(child, line);
                         });
}

void PointWorkers::hear(Child& child, const std::string& line) {
  const std::size_t point = std::exchange(child.point, std::nullopt).value();
  finish(point, to_end(parse_message(line, child.process)));
}

void PointWorkers::bury(Child& child) {
  ProcessWatch::instance().forget_child(child.process);
  const int status = wait_for_end(child.process);
  const std::optional<std::size_t> point = child.point;
  PointEnd end;
  if (!child.is_called_off) end.crash = describe_end(status);
  children_.remove_if([&](const Child& one) { return &one == &child; });
  if (point) finish(*point, std::move(end));
}

void PointWorkers::finish(std::size_t point, PointEnd end) {
  running_.erase(point);
  calls_.end(point, std::move(end));
}

void PointWorkers::call_off_from(std::size_t point) {
  for (auto& [number, thread] : threads_) {
    if (number >= point) calls_.interrupt(number);
  }
  for (Child& child : children_) {
    if (child.is_called_off || !child.point || *child.point < point) continue;
    child.is_called_off = true;
    ::kill(child.process, SIGKILL);
  }
}

// The child's part.  It leaves the signals that ask a process to end to its parent, and ends with
// it.
void PointWorkers::serve(int socket, pid_t parent) const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);  // it has ended before that call
  try {
    ProcessWatch::instance().set_stop_handler({.begin = [](int) {}, .end = {}});
    std::FILE* const orders = ::fdopen(socket, "r");
    char* line = nullptr;
    std::size_t capacity = 0;
    for (ssize_t size = 0; (size = ::getline(&line, &capacity, orders)) > 0;) {
      const std::string text(line, static_cast<std::size_t>(size - 1));
      const std::size_t point = parse_message(text, parent).number;
      const PointEnd end = calls_.begin(point)();
      std::fflush(nullptr);
      if (write_all(socket, to_text(to_message(point, end)) + '\n') != 0) break;
    }
  } catch (...) {  // its parent finds it gone
    ::_exit(static_cast<int>(ExitCode::host_limit));
  }
  ::_exit(0);
}

}  // namespace kernbench::benches
