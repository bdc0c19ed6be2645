// A backend without a device: a collective is a meeting of all ranks, at the last one's arrival.

#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/context/runtime_context.h"

namespace kernbench::test {

class MeetingBackend : public distributed::Backend {
 public:
  explicit MeetingBackend(RuntimeContext& torch) : torch_(torch) {}

  std::string_view name() const override { return "meeting"; }
  int world_size() const override { return torch_.topology().system.sip_count; }

  void all_reduce(const distributed::CollectiveCall& call, Tensor&, ReduceOp) override {
    barrier(call);
  }

  void barrier(const distributed::CollectiveCall& call) override {
    auto& waiting = meetings_[call.operation];
    const auto own = std::make_shared<runtime::Completion>(torch_.simulation());
    waiting.push_back(own);
    if (static_cast<int>(waiting.size()) == world_size()) {
      for (const auto& completion : waiting) completion->signal();
    }
    torch_.simulation().wait(*own, [] { return std::string("the meeting"); });
  }

  static void register_it() {
    distributed::register_backend(
        "meeting", [](RuntimeContext& torch, const distributed::BackendConfig*) {
          return std::unique_ptr<distributed::Backend>(new MeetingBackend(torch));
        });
  }

 private:
  RuntimeContext& torch_;
  std::map<std::uint64_t, std::vector<std::shared_ptr<runtime::Completion>>> meetings_;
};

}  // namespace kernbench::test
