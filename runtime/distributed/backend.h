// What a backend of torch.distributed provides.  The interface is declared here and implemented by
// `local` beside it and by what lies above (ccl), so that the runtime does not know which there is.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/distributed/collective.h"

namespace kernbench {

class RuntimeContext;

namespace distributed {

// Settings of a backend, opaque to the runtime (RuntimeOptions::ccl).
class BackendConfig {
 public:
  virtual ~BackendConfig() = default;
};

// One group's members on a backend.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Runs the calling rank's part and blocks it until that is done.  Every member calls, at a time
  // of its own; what they must agree on has been checked (CollectiveLedger), and a member's calls
  // of one group come one after the other.  All ranks end with the same bits where results are the
  // same.  A partial placement of what is taken becomes a replicated one.
  virtual void run(const CollectiveCall& call, const CollectiveRequest& request) = 0;

  // Copies a block from one member to another, both of which wait for it.  Called once for both;
  // blocks the caller.  Several may be under way at a time.
  // REQUIRES: as many elements, of one type
  virtual void transfer(std::uint64_t operation, const Block& source, const Block& target) = 0;

  // The algorithm that run() runs a request by, asked before it; none without a device.  Messages
  // are asked for as an all_to_all.
  struct RunsBy {
    std::string_view algorithm;  // lives as long as the program
    bool is_configured = false;  // it is what the backend's settings ask for
  };
  virtual RunsBy runs_by(const CollectiveRequest&) { return {}; }

  // The run was cut short: who was in run() or transfer() has been unwound, and nothing of it goes
  // on.  Lets go of what belonged to it.
  virtual void abandon() {}
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  // Ranks that there can be.  The default group has all, or the first so many.
  virtual int world_size() const = 0;

  // Ranks that call each collective: all, or a single driver that calls for all of them.
  virtual int caller_count() const { return world_size(); }
  bool has_single_driver() const { return caller_count() == 1 && world_size() > 1; }

  // For a group of these members, global ranks by group rank: first for the default group, with all
  // of its ranks, and for each other group when it first runs something, if it does.  What a group
  // of one has already is not run: a communicator of one copies, or makes partial tensors
  // replicated. May throw CollectiveError if it has no such groups.
  virtual std::unique_ptr<Communicator> connect(const std::vector<int>& ranks) = 0;

  // The default group is about to be destroyed.  May throw what is wrong with how it was used.
  virtual void close() {}
};

using BackendFactory = std::unique_ptr<Backend> (*)(RuntimeContext&, const BackendConfig*);

// The backends that init_process_group() knows.  Registering a name again changes nothing.
bool register_backend(std::string_view name, BackendFactory factory);
BackendFactory find_backend(std::string_view name);  // nullptr if there is none
std::vector<std::string> backend_names();

}  // namespace distributed
}  // namespace kernbench
