// Whether operators are recorded.

#pragma once

namespace kernbench {

class RuntimeContext;

namespace runtime {
class Simulation;
struct FiberLocal;
}  // namespace runtime

// As long as it lives, the operators of the rank that made it record nothing, and their results
// need no gradient (torch::NoGradGuard).  It must be destroyed by the rank that made it.
class NoGradGuard {
 public:
  explicit NoGradGuard(RuntimeContext& torch);
  explicit NoGradGuard(runtime::Simulation& simulation);
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  runtime::FiberLocal& local_;
  const bool was_enabled_;
};

// Whether operators of the caller are recorded (torch.is_grad_enabled).
bool is_grad_enabled(runtime::Simulation& simulation);

}  // namespace kernbench
