// The state of a Bench, which its sweeps share.

#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/bench_request.h"
#include "benches/bench/context_set.h"

namespace kernbench::benches {

struct Bench::State {
  State(BenchRequest its_request, Settings its_settings, Console& its_console)
      : request(std::move(its_request)),
        settings(std::move(its_settings)),
        console(its_console),
        output_folder(request.output_folder),
        contexts(request.trace) {}

  BenchRequest request;
  const Settings settings;
  Console& console;
  std::filesystem::path output_folder;
  mutable std::mutex results_mutex;  // guards the next three, for finished_rows()
  std::vector<Row> rows = {};
  const SweepRun* sweep = nullptr;  // the running sweep, or null
  bool ok = true;
  std::vector<Artifact> artifacts = {};
  std::vector<std::string> dropped_artifacts = {};
  std::optional<std::uint64_t> inputs_hash = {};     // computed on first use
  std::vector<std::filesystem::path> journals = {};  // of sweeps
  bool has_printed = false;
  ContextSet contexts;
};

}  // namespace kernbench::benches
