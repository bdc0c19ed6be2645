// A backend without a device: a collective is a meeting of all ranks, at the last one's arrival.

#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/distributed/backend.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::test {

class MeetingBackend : public distributed::Backend {
 public:
  explicit MeetingBackend(RuntimeContext& torch) : torch_(torch) {}

  std::string_view name() const override { return "meeting"; }
  int world_size() const override { return torch_.topology().system.sip_count; }
  std::unique_ptr<distributed::Communicator> connect(const std::vector<int>& ranks) override {
    return std::make_unique<Meetings>(torch_, ranks.size());
  }

  static void register_it() {
    distributed::register_backend(
        "meeting", [](RuntimeContext& torch, const distributed::BackendConfig*) {
          return std::unique_ptr<distributed::Backend>(new MeetingBackend(torch));
        });
  }

 private:
  class Meetings : public distributed::Communicator {
   public:
    Meetings(RuntimeContext& torch, std::size_t size) : torch_(torch), size_(size) {}

    void run(const distributed::CollectiveCall& call,
             const distributed::CollectiveRequest&) override {
      auto& waiting = meetings_[call.operation];
      const auto own = std::make_shared<runtime::Completion>(torch_.simulation());
      waiting.push_back(own);
      if (waiting.size() == size_) {
        for (const auto& completion : waiting) completion->signal();
      }
      torch_.simulation().wait(*own, [] { return std::string("the meeting"); });
    }
    void transfer(std::uint64_t, const distributed::Block&, const distributed::Block&) override {}

   private:
    RuntimeContext& torch_;
    const std::size_t size_;
    std::map<std::uint64_t, std::vector<std::shared_ptr<runtime::Completion>>> meetings_;
  };

  RuntimeContext& torch_;
};

}  // namespace kernbench::test
