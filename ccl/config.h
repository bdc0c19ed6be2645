// ccl.yaml: which algorithm runs, and with what queues.
//
//   defaults:
//     algorithm: intercube_allreduce
//     buffer_kind: tcm          # of the queues: tcm, sram or hbm
//     depth: 4                  # slots of a queue
//     slot: 16 KiB              # what one slot holds
//     wait: sleep               # for messages and credits: sleep (until woken) or poll
//     n_elem: [1024, 49152]     # what benches sweep when they are not told; a list or one number
//   algorithms:
//     intercube_allreduce: {buffer_kind: sram, root: corner}
//     my_ring_of_pes: {kernel: ring_allreduce, world_size: 8}
//
// Every key may be left out; an algorithm's entry overrides the defaults.  Further keys:
//
//   poll_interval   beside `wait: poll`: how often it looks, 100 ns if it is not given
//   world_size      rank = PE: the first so many PEs take part, for a single driver (ADR-0024).
//                   Without it a rank is a SIP.
//   participants    of a SIP: shard_holders, or one_pe_per_sip, whose ports between SIPs are called
//                   east, west, north and south.  Not together with world_size.
//   root            of the tree over cubes: center or corner
//   neighbours      rank = PE: how the PEs are joined, as a ring, grid or tree; else as the
//                   algorithm wants it.  auto gives each algorithm what it wants.
//
// `algorithm: auto` takes the fastest by the model for each size, of those that suit it
// (Algorithm::suits_auto).

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/algorithm.h"
#include "runtime/distributed/backend.h"
#include "sim_engine/components/ipcq.h"

namespace kernbench {
class YamlDocument;
}

namespace kernbench::ccl {

// Who takes part on a SIP: every PE that holds a shard, or its first PE alone.
enum class Participants : std::uint8_t { shard_holders, one_pe_per_sip };
inline constexpr std::array kParticipants = {Participants::shard_holders,
                                             Participants::one_pe_per_sip};
std::string_view name_of(Participants participants);

inline constexpr std::array kRoots = {Root::center, Root::corner};
std::string_view name_of(Root root);

// The algorithm that stands for the fastest one.
inline constexpr std::string_view kAuto = "auto";

// Settings as they are written: what is not there is inherited.
struct Settings {
  std::optional<sim::BufferKind> buffer_kind;
  std::optional<int> depth;
  std::optional<Bytes> slot_bytes;
  std::optional<sim::WaitPolicy> wait;
  std::optional<Time> poll_interval;
  std::optional<std::vector<std::int64_t>> n_elem;
  std::optional<int> world_size;
  std::optional<Participants> participants;
  std::optional<Root> root;
  std::optional<Neighbours> neighbours;
};

struct AlgorithmEntry {
  std::string name;
  std::string kernel;
  Settings settings;
};

class Config : public distributed::BackendConfig {
 public:
  // The built-in defaults.
  Config();

  // ConfigError lists all errors at once (KB-Y...); KB-Y040 for an algorithm that is not there.
  static Config parse(std::string_view text, const std::string& name = "ccl.yaml");
  static Config load(const std::filesystem::path& path);

  // What is in force.
  const std::string& algorithm_name() const { return algorithm_; }
  bool is_auto() const { return algorithm_ == kAuto; }
  const Algorithm& algorithm() const;                // REQUIRES: !is_auto()
  std::vector<const Algorithm*> candidates() const;  // that auto chooses from; else the one
  sim::IpcqParams ipcq() const;
  std::vector<std::int64_t> n_elem() const;
  std::optional<int> world_size() const;  // rank = PE; else a rank is a SIP
  Participants participants() const;
  Root root() const;
  std::set<Neighbours> neighbours() const;  // of all candidates

  // The same with one thing changed, over what the file says.  UsageError KB-U003 if there is no
  // algorithm of that name.
  Config with_algorithm(std::string_view name) const;
  Config with_buffer_kind(sim::BufferKind kind) const;
  Config with_world_size(int world_size) const;
  Config with_root(Root root) const;

  // Into RuntimeOptions::ccl.
  operator std::shared_ptr<const distributed::BackendConfig>() const {
    return std::make_shared<const Config>(*this);
  }

 private:
  static Config read(const YamlDocument& document);
  const AlgorithmEntry* entry() const;
  bool is_known(std::string_view name) const;
  template <class Value>
  std::optional<Value> setting(std::optional<Value> Settings::*member) const;

  std::string algorithm_;
  Settings overrides_;
  Settings defaults_;
  std::vector<AlgorithmEntry> entries_;
};

}  // namespace kernbench::ccl
