#include "sim_engine/core/engine.h"

namespace kernbench::sim {

bool Engine::run(const std::atomic<bool>& stop, std::uint64_t at_most) {
  while (!stop.load(std::memory_order_relaxed) && at_most > 0 && step()) --at_most;
  return stop;
}

void Engine::run() {
  while (step()) {
  }
}

}  // namespace kernbench::sim
