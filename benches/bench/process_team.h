// The processes that simulate a sweep's points together, e.g. those of `mpirun -n 4 kernbench ...`.
//
// All of them run the same command and come to the same sweeps with the same points.  The first
// one leads: it hands out points, and is the only one that prints and writes (ADR-0054).

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace kernbench::benches {

// A message between processes of a team, and between a process and its children (point_workers.h).
struct TeamMessage {
  enum class Kind : char {
    want = 'w',     // to the leader: give me points; `number` at a time, of the sweep `text`
    take = 't',     // from the leader: simulate point `number`
    outcome = 'o',  // either way: of point `number`, as a line (point_outcome.h)
    failed = 'f',   // to the leader: point `number` has thrown here
    crashed = 'c',  // to the leader: point `number` has ended its process, as `text` says
    end = 'e',      // from the leader: the sweep is complete
    leave = 'l',    // to the leader: I cannot go on, for the reason `text`
    dismiss = 'd',  // from the leader: there is nothing more to do
    bye = 'b',      // to the leader, which has dismissed me: my last word
  };
  Kind kind = Kind::want;
  std::uint64_t number = 0;
  std::string text = {};
  int peer = 0;  // the sender's rank
};

// A message without its sender as one line, and the inverse.
std::string to_text(const TeamMessage& message);
TeamMessage parse_message(const std::string& text, int from);

// Carries texts between the processes of a team, each pair's in order.  For one thread.
class TeamTransport {
 public:
  virtual ~TeamTransport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void send(int to, const std::string& text) = 0;  // does not wait
  struct Received {
    int from = 0;
    std::string text;
  };
  virtual std::optional<Received> receive() = 0;  // nullopt if nothing has come
};

// Thrown in a process that the leader has dismissed: the process ends without a message.
struct Dismissed {
  int exit_code = 0;
};

class ProcessTeam {
 public:
  explicit ProcessTeam(std::unique_ptr<TeamTransport> transport);
  // The leader dismisses the others and receives their last messages; another process leaves and
  // waits until it is dismissed.  Otherwise the transport could wait for ever at its end, since MPI
  // delivers a large message only when its receiver asks for it.
  ~ProcessTeam();
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  bool leads() const { return transport_->rank() == 0; }
  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  void send(int to, const TeamMessage& message);
  // The next message, or nullopt; throws Dismissed if it is a dismissal.
  std::optional<TeamMessage> receive();

  // The leader asks which other processes are still there.
  const std::set<int>& members() const { return members_; }
  void remove(int member) { members_.erase(member); }
  void dismiss_all();

  // The other processes call this.  Tells the leader that this process cannot go on.  The first
  // reason counts.
  void leave(const std::string& reason);

 private:
  std::optional<TeamMessage> next();
  void end();

  const std::unique_ptr<TeamTransport> transport_;
  std::set<int> members_;
  bool has_left_ = false;  // was dismissed; leader: has dismissed the others
  bool has_said_reason_ = false;
};

// The team that this process was started in; null if it runs alone.  Throws UsageError KB-U015 if
// it was started as one of several processes but cannot communicate with them.
std::unique_ptr<ProcessTeam> join_process_team();

}  // namespace kernbench::benches
