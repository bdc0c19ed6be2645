// torch.distributed.Store and its kinds: host values by key, which ranks share.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::runtime {
class Simulation;
}

namespace kernbench::distributed {

template <class T>
concept HasSimulation = requires(T& torch) {
  shared_simulation_of(torch);
};

// A handle; copies refer to the same values, which take no simulated time.  Values are bytes.  The
// functions throw CollectiveError KB-R012 inside a kernel.  No timeout is needed: a key that nobody
// can set any more is reported as a deadlock, at once.
class Store {
 public:
  Store() = default;  // torch's None
  bool defined() const { return state_ != nullptr; }

  void set(std::string_view key, std::string value) const;
  // Blocks the caller until the key is set.  Throws DeadlockError KB-D001 if nobody is left to.
  std::string get(std::string_view key) const;
  void wait(const std::vector<std::string>& keys,
            std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;
  // Adds to a whole number, which a key that is not set counts as 0 for, and returns the sum.
  // Throws CollectiveError KB-C020 if the value is no number, or the sum too large.
  std::int64_t add(std::string_view key, std::int64_t amount) const;
  // Sets `desired` if the value is `expected`, or if the key is not set and `expected` is empty.
  // Returns what the value is then; `expected` for a key that is still not set.
  std::string compare_set(std::string_view key, const std::string& expected,
                          const std::string& desired) const;
  bool delete_key(std::string_view key) const;  // true if it was set
  std::int64_t num_keys() const;                // those of other prefixes too

 protected:
  struct State;
  explicit Store(std::shared_ptr<runtime::Simulation> simulation);
  // The store of this name, which the first caller makes; it ends with the spawn() of its ranks.
  Store(std::shared_ptr<runtime::Simulation> simulation, const std::string& name);
  Store(const Store& of, std::string prefix);

 private:
  struct Stores;
  State& checked() const;
  void touch(std::string_view key, bool writes) const;
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  std::shared_ptr<runtime::Simulation> simulation_;
  std::shared_ptr<State> state_;
  std::string prefix_ = {};
};

// A store of its own: `kb::distributed::HashStore store(torch);` before spawn().
class HashStore : public Store {
 public:
  template <HasSimulation Context>
  explicit HashStore(Context& torch) : Store(shared_simulation_of(torch)) {}
};

// Ranks that name the same file share a store; no file is written, and no rank is a server.
class FileStore : public Store {
 public:
  template <HasSimulation Context>
  FileStore(Context& torch, const std::string& file_name)
      : Store(shared_simulation_of(torch), "file " + file_name) {}
};

// Ranks that name the same host and port share a store; no socket is opened.
class TCPStore : public Store {
 public:
  template <HasSimulation Context>
  TCPStore(Context& torch, const std::string& host_name, int port)
      : Store(shared_simulation_of(torch), "tcp " + host_name + ":" + std::to_string(port)) {}
};

// Another store's keys that begin with `prefix` and a slash.
class PrefixStore : public Store {
 public:
  PrefixStore(const std::string& prefix, const Store& store) : Store(store, prefix + "/") {}
};

}  // namespace kernbench::distributed
