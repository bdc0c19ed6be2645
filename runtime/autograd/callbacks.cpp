#include "runtime/autograd/callbacks.h"

#include <utility>

#include "runtime/simulation/simulation.h"
#include "sim_engine/base/check.h"

namespace kernbench::autograd {

namespace {

struct Passes final : runtime::PerRank<Callbacks*> {};

Callbacks*& current(runtime::Simulation& simulation) {
  return simulation.attachments().get<Passes>().of(simulation.local());
}

}  // namespace

void queue_callback(runtime::Simulation& simulation, std::function<void()> callback) {
  Callbacks* const pass = current(simulation);
  KB_CHECK(pass != nullptr, "no backward() is running");
  pass->queued_.push_back(std::move(callback));
}

Callbacks::Callbacks(runtime::Simulation& simulation) : current_(current(simulation)) {
  if (current_ == nullptr) current_ = this;
}

Callbacks::~Callbacks() {
  if (current_ == this) current_ = nullptr;
}

void Callbacks::run() {
  for (std::size_t i = 0; i < queued_.size(); ++i) std::exchange(queued_[i], {})();
}

}  // namespace kernbench::autograd
