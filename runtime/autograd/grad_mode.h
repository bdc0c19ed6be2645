// Switches the recording of operators on and off.

#pragma once

namespace kernbench {

class RuntimeContext;

namespace runtime {
class Simulation;
struct FiberLocal;
}  // namespace runtime

// While it lives, the operators of the rank that made it record nothing, and their results need no
// gradient (torch::NoGradGuard).  The rank that made it must destroy it.
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

// As NoGradGuard (c10::InferenceMode, whose tensors may not be used in a graph later: these may).
class InferenceMode : public NoGradGuard {
 public:
  using NoGradGuard::NoGradGuard;
};

// While it lives, they are recorded again (torch.enable_grad).
class EnableGradGuard {
 public:
  explicit EnableGradGuard(runtime::Simulation& simulation);
  ~EnableGradGuard();
  EnableGradGuard(const EnableGradGuard&) = delete;
  EnableGradGuard& operator=(const EnableGradGuard&) = delete;

 private:
  runtime::FiberLocal& local_;
  const bool was_enabled_;
};

// True if the caller's operators are recorded (torch.is_grad_enabled).
bool is_grad_enabled(runtime::Simulation& simulation);

}  // namespace kernbench
