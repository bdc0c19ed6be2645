// ccl.yaml: which algorithm runs, and with what queues.
//
//   defaults:
//     algorithm: intercube_allreduce
//     buffer_kind: tcm          # of the queues: tcm, sram or hbm
//     depth: 4                  # slots of a queue
//     slot: 16 KiB              # what one slot holds
//     n_elem: [1024, 49152]     # what benches sweep when they are not told; a list or one number
//   algorithms:
//     intercube_allreduce: {kernel: intercube_allreduce, buffer_kind: sram}
//
// Every key may be left out; an algorithm's entry overrides the defaults.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
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

// Settings as they are written: what is not there is inherited.
struct Settings {
  std::optional<sim::BufferKind> buffer_kind;
  std::optional<int> depth;
  std::optional<Bytes> slot_bytes;
  std::optional<std::vector<std::int64_t>> n_elem;
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
  const Algorithm& algorithm() const;
  sim::IpcqParams ipcq() const;
  std::vector<std::int64_t> n_elem() const;

  // The same with one thing changed, over what the file says.  UsageError KB-U003 if there is no
  // algorithm of that name.
  Config with_algorithm(std::string_view name) const;
  Config with_buffer_kind(sim::BufferKind kind) const;

  // Into RuntimeOptions::ccl.
  operator std::shared_ptr<const distributed::BackendConfig>() const {
    return std::make_shared<const Config>(*this);
  }

 private:
  static Config read(const YamlDocument& document);
  const AlgorithmEntry* entry() const;
  template <class Value>
  Value setting(std::optional<Value> Settings::*member, Value fallback) const;

  std::string algorithm_;
  Settings overrides_;
  Settings defaults_;
  std::vector<AlgorithmEntry> entries_;
};

}  // namespace kernbench::ccl
