// The processes that simulate a sweep's points together, e.g. those of `mpirun -n 4 kernbench ...`.
//
// All of them run the same command and come to the same sweeps with the same points.  The first
// one leads: it hands out points, and is the only one that prints and writes (ADR-0150).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace kernbench::benches {

// What processes of a team tell each other.
struct TeamMessage {
  enum class Kind : char {
    want = 'w',     // to the leader: give me points; `number` at a time, of the sweep `text`
    take = 't',     // from the leader: simulate point `number`
    outcome = 'o',  // either way: of point `number`, as a line (point_outcome.h)
    failed = 'f',   // to the leader: point `number` has thrown here
    end = 'e',      // from the leader: the sweep is complete
    leave = 'l',    // to the leader: I cannot go on, for the reason `text`
    dismiss = 'd',  // from the leader: there is nothing more to do
    bye = 'b',      // to the leader, which has dismissed me: my last word
  };
  Kind kind = Kind::want;
  std::uint64_t number = 0;
  std::string text = {};
  int peer = 0;  // who sent it
};

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
  virtual std::optional<Received> receive() = 0;  // if something has come
};

// Thrown in a process that the leader has dismissed: it ends, and has nothing to say.
struct Dismissed {
  int exit_code = 0;
};

class ProcessTeam {
 public:
  explicit ProcessTeam(std::unique_ptr<TeamTransport> transport);
  // Of the leader: dismisses the others, and hears them out.  Of another one: leaves, and waits
  // until it is dismissed.  So nobody waits for ever in the transport's end for a text of his to be
  // received, as MPI's large ones are only when their receiver asks for them.
  ~ProcessTeam();
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  bool leads() const { return transport_->rank() == 0; }
  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  void send(int to, const TeamMessage& message);
  // What has come; Dismissed is thrown for a dismissal.
  std::optional<TeamMessage> receive();

  // Of the leader: who is still there beside it.
  const std::set<int>& members() const { return members_; }
  void remove(int member) { members_.erase(member); }
  void dismiss_all();

  // Of another one: it cannot go on.  The first reason counts.
  void leave(const std::string& reason);

 private:
  std::optional<TeamMessage> next();
  void end();

  const std::unique_ptr<TeamTransport> transport_;
  std::set<int> members_;
  bool has_left_ = false;  // is dismissed; of the leader: has dismissed the others
  bool has_said_reason_ = false;
};

// The team that this process has been started in; none if it is alone.  Throws UsageError KB-U015
// if it has been started as one of several, but cannot talk with them.
std::unique_ptr<ProcessTeam> join_process_team();

}  // namespace kernbench::benches
