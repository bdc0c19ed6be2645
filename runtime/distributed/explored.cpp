// What torch.distributed asks and tells what explores schedules (ScheduleChoices).

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/distributed/distributed_state.h"
#include "runtime/tensor/logical_value.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::distributed {

using runtime::ScheduleChoices;

namespace {

std::uint64_t mailbox_object(const Group& group, const Mailbox::Address& address) {
  constexpr std::uint64_t kMailbox = 3;
  const auto receiver = static_cast<std::uint64_t>(address.receiver);
  const auto tag = static_cast<std::uint32_t>(address.tag);
  const auto in_group =
      2 * static_cast<std::uint64_t>(group.number) + (address.is_of_objects ? 1 : 0);
  return runtime::shared_object(kMailbox, in_group, receiver << 32 | tag);
}

}  // namespace

void DistributedContext::State::delay_call() const {
  ScheduleChoices* const choices = simulation->choices();
  if (choices == nullptr || !is_rank()) return;
  simulation->sleep(
      choices->delay_of_call(local().rank), [] { return std::string("a call that takes longer"); },
      sim::Cause::host);
}

// A driver that acts for all ranks has one result.
void DistributedContext::State::observe(const CollectiveCall& call) const {
  ScheduleChoices* const choices = simulation->choices();
  if (choices == nullptr) return;
  std::uint64_t block = 0;
  for (const Block& taken : call.takes) {
    const std::uint64_t number =
        runtime::shared_object(static_cast<std::uint64_t>(call.event.group),
                               static_cast<std::uint64_t>(call.event.sequence), ++block);
    choices->observes(local().rank, call.event.function, number,
                      runtime::load_block(*taken.tensor.storage(), taken.first, taken.count));
  }
}

bool DistributedContext::State::note_message(const Group& group, const Message& message) const {
  ScheduleChoices* const choices = simulation->choices();
  if (choices == nullptr) return false;
  if (!message.is_send) return message.event.peer < 0 && choices->defers_matches();
  choices->touches(mailbox_object(group, Mailbox::make_address(message)),
                   ScheduleChoices::Touch::gives);
  return false;
}

void DistributedContext::State::note_match(const Group& group, const Message& receive,
                                           const Message& send) const {
  ScheduleChoices* const choices = simulation->choices();
  if (choices == nullptr || receive.event.peer >= 0) return;
  choices->sees(mailbox_object(group, Mailbox::make_address(receive)), [&] {
    return fmt::format("rank {}'s {} gets rank {}'s message", receive.own, describe(receive),
                       send.own);
  });
}

// Lets a receive from any rank that was put aside get its message, and the next one of its address
// wait for the next standstill.
struct DistributedContext::State::SettleLater {
  State& state;
  const std::shared_ptr<Group> group;
  const Mailbox::Address address;

  void settle() {
    ScheduleChoices& choices = *state.simulation->choices();
    choices.touches(mailbox_object(*group, address), ScheduleChoices::Touch::takes);
    const auto matches = group->mailbox.settle(
        address, [&](std::span<const int> senders) { return choices.choose_match(senders); });
    for (const auto& [receive, send] : matches) state.deliver(*group, receive, send);
    state.settle_at_standstill(*group, address);
    state.simulation->standstill_ends();
    state.simulation->release(this);
  }
};

void DistributedContext::State::settle_at_standstill(Group& group,
                                                     const Mailbox::Address& address) {
  constexpr std::uint64_t kSettling = 4;
  const auto number = group.mailbox.begin_settling(address);
  if (!number) return;
  const auto later =
      std::make_shared<SettleLater>(SettleLater{*this, group.shared_from_this(), address});
  simulation->keep(later);
  simulation->machine().engine().schedule_at_standstill(
      sim::Engine::call<&SettleLater::settle>(later.get()),
      runtime::shared_object(kSettling, mailbox_object(group, address), *number));
}

}  // namespace kernbench::distributed
