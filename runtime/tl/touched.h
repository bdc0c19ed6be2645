// The memory that a kernel touches whenever it goes on after a wait (ADR-0270).

#pragma once

#include <array>

#include "runtime/fiber/fiber_local.h"
#include "runtime/fiber/prefetched.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

class Context;

class Touched final : public runtime::Prefetched {
 public:
  Touched(const Context& context, const sim::KernelRun& run, const runtime::FiberLocal& local)
      : context_(context), run_(run), local_(local) {}

  // The kernel has used a queue, and probably will again.
  void add(const sim::IpcqChannel& queue, bool is_in) {
    const auto direction =
        static_cast<std::size_t>((is_in ? queue.ends().in : queue.ends().out).direction);
    queues_[direction % 2 + (is_in ? 2 : 0)] = &queue;
  }
  // The kernel's own part; null: none.
  void set_more(const runtime::Prefetched* more) { more_ = more; }

  void prefetch(int stage) const override;

 private:
  const Context& context_;
  const sim::KernelRun& run_;
  const runtime::FiberLocal& local_;
  std::array<const sim::IpcqChannel*, 4> queues_ = {};
  const runtime::Prefetched* more_ = nullptr;
};

}  // namespace kernbench::tl
