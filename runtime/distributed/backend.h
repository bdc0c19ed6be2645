// The interface that a backend of torch.distributed implements: `local` in this folder and those
// of higher layers (ccl), so that the runtime does not depend on them.

#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/distributed/collective.h"
#include "runtime/distributed/options.h"

namespace kernbench {

class RuntimeContext;
namespace runtime {
class Simulation;
}

namespace distributed {

// The members of one group, connected on a backend.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Runs the calling rank's part and blocks it until that is done.  Every member calls, at a time
  // of its own; CollectiveLedger has checked what they must agree on, and a member's calls of one
  // group come one after the other.  Where ranks have the same result, they have the same bits.
  // Outputs with a partial placement become replicated.
  virtual void run(const CollectiveCall& call) = 0;

  // Copies a block from one member to another, both of which wait for it.  One call serves both
  // members and blocks the caller.  Several may be under way at a time.
  // REQUIRES: both blocks have the same number of elements, of one type
  virtual void transfer(std::uint64_t operation, const Block& source, const Block& target) = 0;

  // The algorithm that run() will use for a call; empty on a backend without a device.  For
  // messages, runs_by() is given an all_to_all.
  struct RunsBy {
    std::string_view algorithm;  // lives as long as the program
    bool is_configured = false;  // true if the backend's settings ask for it
    int rule = 0;                // the number of their rule that does, from 1; 0: none
  };
  virtual RunsBy runs_by(const CollectiveCall&) { return {}; }

  // Not all members will call the operation: those that wait in run() for the others get this
  // exception.  A backend whose members wait elsewhere, as in a kernel, lets them wait on.
  virtual void give_up(std::uint64_t /*operation*/, const std::exception_ptr& /*why*/) {}

  // The run was cut short: the fibers in run() and transfer() have been unwound, and nothing of
  // theirs goes on.  Releases what belonged to that run.
  virtual void abandon() {}
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  // The number of ranks there can be.  The default group has all of them, or the first ones
  // (InitOptions::world_size).
  virtual int world_size() const = 0;

  // The number of ranks that call each collective: all, or a single driver that calls for all.
  virtual int caller_count() const { return world_size(); }
  bool has_single_driver() const { return caller_count() == 1 && world_size() > 1; }

  // True if collectives run on devices, so that streams can order them; else each blocks its
  // caller, whether launches are queued or not (ADR-0190).
  virtual bool runs_on_streams() const { return false; }

  // Makes the communicator of a group with these members, global ranks by group rank, and this
  // description (NewGroupOptions::group_desc; "default_pg" is that of the default group).  It is
  // called for the default group first, with all of its ranks, and for another group when that
  // first runs something.  A group of one whose output is already its input runs nothing;
  // otherwise its communicator copies, or makes partial tensors replicated.
  // May throw CollectiveError if the backend has no such groups.
  virtual std::unique_ptr<Communicator> connect(const std::vector<int>& ranks,
                                                std::string_view description) = 0;

  // Called before the default group is destroyed.  May throw an error about how it was used.
  virtual void close() {}
};

// The arguments of a backend's factory.
struct BackendInputs {
  RuntimeContext& torch;  // for backends above runtime; this folder knows the simulation alone
  const std::shared_ptr<runtime::Simulation>& simulation;
  const BackendConfig* config;  // null: the backend's defaults
};
using BackendFactory = std::unique_ptr<Backend> (*)(const BackendInputs&);

// The backends that init_process_group() knows.  Registering a name again changes nothing.
bool register_backend(std::string_view name, BackendFactory factory);
BackendFactory find_backend(std::string_view name);  // nullptr if there is none
std::vector<std::string> backend_names();

}  // namespace distributed
}  // namespace kernbench
