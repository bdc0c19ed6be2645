#include "sim_engine/core/engine.h"

namespace kernbench::sim {

bool Engine::run(const bool& stop) {
  while (!stop && step()) {
  }
  return stop;
}

void Engine::run() {
  while (step()) {
  }
}

}  // namespace kernbench::sim
