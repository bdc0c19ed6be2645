#include "sim_engine/components/processing_element.h"

#include <algorithm>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::sim {

namespace {

constexpr Bytes kFixedShare = 4;  // of the TCM, since queues and collectives may take half

}  // namespace

Bytes ProcessingElement::scratch_for_tiles(bool for_collective) const {
  const Bytes scratch = scratch_capacity(for_collective);
  if (!services_.has_fixed_tiles) return scratch;
  const Bytes fixed = services_.topology.pe.tcm.capacity / kFixedShare;
  if (scratch >= fixed) return fixed;
  throw DeviceError("KB-M010",
                    "{}: queues leave {} B of the TCM to kernels; tiles that are the same for any "
                    "number of ranks need {}: take fewer or smaller slots",
                    to_string(location()), scratch, fixed);
}

void ProcessingElement::claim(const Event& begin) {
  if (is_claimed_) {
    claims_.push_back(begin);
    return;
  }
  is_claimed_ = true;
  begin.function(begin.object, begin.argument);
}

void ProcessingElement::release() {
  KB_CHECK(is_claimed_, "{} runs no kernel", to_string(location()));
  is_claimed_ = !claims_.empty();
  if (claims_.empty()) return;
  // The next kernel begins in an event of its own, so that the one that ends finishes its step
  // first.
  services_.engine.schedule(Time{0}, claims_.front());
  claims_.erase(claims_.begin());
}

void ProcessingElement::kernel_ended() {
  --kernel_count_;
  scratch_may_be_free();
}

void ProcessingElement::forget_scratch_waiter(const Event& event) {
  std::erase_if(scratch_waiters_, [&](const Event& waiter) {
    return waiter.object == event.object && waiter.argument == event.argument;
  });
}

void ProcessingElement::wake_scratch_waiters() {
  // All waiters are woken, and those that still find too little room wait again: they may need
  // different amounts.
  for (const Event& waiter : std::exchange(scratch_waiters_, {})) {
    waiter.function(waiter.object, waiter.argument);
  }
}

std::array<PeUnitUse, 12> ProcessingElement::unit_uses() const {
  std::array<PeUnitUse, 12> uses;
  const Time cpu = std::min(cpu_busy_, services_.engine.now());  // it runs ahead of simulated time
  uses[0] = {UnitClass::cpu, "cpu", cpu};
  std::ranges::copy(scheduler_.unit_uses(), uses.begin() + 1);
  return uses;
}

void ProcessingElement::reset() {
  scheduler_.reset();
  is_claimed_ = false;
  claims_.clear();
  kernel_count_ = 0;
  scratch_waiters_.clear();
}

}  // namespace kernbench::sim
