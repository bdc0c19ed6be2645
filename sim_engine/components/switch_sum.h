// The unit of a switch that adds up a message of each of several PEs, and sends each the sum.
//
// Models:      each PE has a queue to the unit and one from it.  The unit has room for kAhead
//              messages of each: receives for them are always posted.  When the last of the n-th
//              messages is there, their sum is made, at the rate of the topology, and goes to the
//              n-th posted receive of every PE as soon as the unit knows of it.
// Not modeled: the beginning of a sum before the end of its last summand.
// Timing:      as that of messages that are copied to posted receives (ipcq.h).

#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/pe_services.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

class SwitchSum final : public IpcqReceiver, public ReceiveIssuer {
 public:
  // The queues of one PE; `to` leads to the unit.
  struct Member {
    IpcqChannel* to = nullptr;
    IpcqChannel* from = nullptr;
  };

  SwitchSum(PeServices& services, std::vector<Member> members);
  SwitchSum(const SwitchSum&) = delete;
  SwitchSum& operator=(const SwitchSum&) = delete;

  std::span<const Member> members() const { return queues_; }
  // The queues of the PE on a SIP.  REQUIRES: there is one
  const Member& of_sip(int sip) const;

  // Sets how the next messages are reduced: add, multiply, minimum or maximum.
  // REQUIRES: no message is under way
  void set_operation(MathOp op) { op_ = op; }

  // Returns to the state after construction, after the queues have.
  void reset();

 private:
  static constexpr int kAhead = 8;

  struct Outgoing {
    std::uint32_t number = 0;
    IpcqMessage message;
  };
  struct Lane {  // of a member
    std::deque<std::uint32_t> posts;
    std::deque<IpcqMessage> arrived;
    std::deque<IpcqMessage> sums;     // that its receives are not known for
    std::deque<Outgoing> on_the_way;  // to it
    bool is_scheduled = false;        // it will know of a receive
  };

  void receive(IpcqChannel& channel, IpcqPost& post, IpcqMessage message) override;
  void receive_in_place(IpcqChannel& channel, IpcqPost& post, IpcqMessage message) override;
  const Operation& operation() const override { return none_; }
  void accepted(const IpcqMessage&, bool, bool) override {}
  void wake_from_post() override {}
  void completed(const Command&) override {}
  Waits& waits() override { return waits_; }

  void post(std::size_t member, Time issued);
  void add_up();
  void summed();
  void send(std::uint64_t member);
  void send_later(std::uint64_t member);
  void delivered(std::uint64_t member);

  PeServices& services_;
  const std::vector<Member> queues_;
  const Path& path_;  // through the adder
  MathOp op_ = MathOp::add;
  std::vector<Lane> lanes_;
  std::deque<IpcqMessage> being_summed_;
  const Operation none_;
  Waits waits_;  // stay 0: it issues no commands
};

}  // namespace kernbench::sim
