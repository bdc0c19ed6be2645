#include "sim_engine/core/engine.h"

namespace kernbench::sim {

bool Engine::run(const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed) && step()) {
  }
  return stop;
}

void Engine::run() {
  while (step()) {
  }
}

}  // namespace kernbench::sim
