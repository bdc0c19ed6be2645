// Simulates points of a sweep at once: in child processes, which are copies of this one, or on
// threads of this one.
//
// A child shares no memory with others, so whatever ends it costs the point that it simulates and
// no other.  It is told a point's number and answers with the outcome, in the texts that processes
// of a team exchange (process_team.h).

#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "benches/bench/point_outcome.h"
#include "benches/bench/process_team.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches {

// How a point has ended.  If it has none of the three, it was called off, or has thrown in another
// process.
struct PointEnd {
  std::optional<PointOutcome> outcome = {};
  std::exception_ptr failure = {};  // what it has thrown in this process
  std::string crash = {};           // what ended its process: "killed by signal 11 (...)"
};

// The functions of the owner of points, which are told the number of a point.
struct PointCalls {
  // Called where the point is simulated: in a child, or in this process.  Returns the work, which
  // may be done on another thread.
  std::function<std::function<PointEnd()>(std::size_t point)> begin;
  // Called by the loop.
  std::function<void(std::size_t point, PointEnd end)> end;
  // The point's work, which a thread of this process does, is no longer wanted.
  std::function<void(std::size_t point)> interrupt;
  // The memory that it needs, as far as it is to be counted.
  std::function<Bytes(std::size_t point)> memory;
};

// The end of a point as the message of the process that has simulated it, and the inverse.
TeamMessage to_message(std::size_t point, const PointEnd& end);
PointEnd to_end(const TeamMessage& message);

class PointWorkers {
 public:
  struct Limits {
    std::size_t count = 1;       // of points at once
    Bytes memory = 0;            // of points at once; a larger one is alone.  0: not counted
    bool has_processes = false;  // else threads
  };

  // `loop`: of the thread that calls all functions of this
  PointWorkers(boost::asio::io_context& loop, Limits limits, PointCalls calls);
  // Calls off what runs.
  ~PointWorkers();
  PointWorkers(const PointWorkers&) = delete;
  PointWorkers& operator=(const PointWorkers&) = delete;

  bool is_idle() const { return running_.empty(); }
  bool has_room(std::size_t point) const;

  // Begins a point; with `here` on a thread of this process, which has to be idle then.  False if
  // the host does not let another process start: then there is room for fewer points from now on.
  // Throws LimitError KB-L003 if it allows no thread either.
  // REQUIRES: has_room(point)
  bool start(std::size_t point, bool here = false);

  // The running points from this number on are no longer wanted.  Their ends come as those of all.
  void call_off_from(std::size_t point);

  // How many points may run at once, and why these are fewer than were wanted ("" if they are not).
  std::size_t count() const { return limits_.count; }
  const std::string& why_not_more() const { return why_not_more_; }

 private:
  struct Child;

  void start_thread(std::size_t point);
  Child* idle_child();
  Child* fork_child();
  Child* cannot_fork(const std::string& why);
  void listen(Child& child);
  void hear(Child& child, const std::string& line);
  void bury(Child& child);
  [[noreturn]] void serve(int socket, pid_t parent) const;
  void finish(std::size_t point, PointEnd end);

  boost::asio::io_context& loop_;
  Limits limits_;
  const PointCalls calls_;
  std::string why_not_more_;
  std::set<std::size_t> running_;
  std::list<Child> children_;                    // a child must not move
  std::map<std::size_t, std::jthread> threads_;  // by point; they end before what they use
};

}  // namespace kernbench::benches
