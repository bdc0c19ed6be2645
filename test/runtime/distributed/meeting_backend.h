// A backend without a device: a collective is a meeting of all ranks, at the last one's arrival.

#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/distributed/backend.h"
#include "runtime/simulation/rendezvous.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::test {

class MeetingBackend : public distributed::Backend {
 public:
  explicit MeetingBackend(runtime::Simulation& simulation) : simulation_(simulation) {}

  std::string_view name() const override { return "meeting"; }
  int world_size() const override { return simulation_.topology().system.sip_count; }
  std::unique_ptr<distributed::Communicator> connect(const std::vector<int>& ranks,
                                                     std::string_view) override {
    return std::make_unique<Meetings>(simulation_, static_cast<int>(ranks.size()));
  }

  static void register_it() {
    distributed::register_backend("meeting", [](const distributed::BackendInputs& inputs) {
      return std::unique_ptr<distributed::Backend>(new MeetingBackend(*inputs.simulation));
    });
  }

 private:
  class Meetings : public distributed::Communicator {
   public:
    Meetings(runtime::Simulation& simulation, int size) : simulation_(simulation), size_(size) {}

    void run(const distributed::CollectiveCall& call) override {
      const auto meeting = meetings_.arrive(call.operation, size_, call.rank, {});
      meeting->wait(simulation_, [] { return std::string("the meeting"); });
    }
    void transfer(std::uint64_t, const distributed::Block&, const distributed::Block&) override {}

   private:
    runtime::Simulation& simulation_;
    const int size_;
    runtime::Meetings<std::monostate> meetings_;
  };

  runtime::Simulation& simulation_;
};

}  // namespace kernbench::test
