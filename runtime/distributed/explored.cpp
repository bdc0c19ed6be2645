// What torch.distributed asks and tells what explores schedules (ScheduleChoices).

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
  return runtime::shared_object(kMailbox, static_cast<std::uint64_t>(group.number),
                                receiver << 32 | tag);
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

void DistributedContext::State::note_message(const Group& group, const Message& message) const {
  ScheduleChoices* const choices = simulation->choices();
  if (choices == nullptr || !message.is_send) return;
  choices->touches(mailbox_object(group, Mailbox::make_address(message)),
                   ScheduleChoices::Touch::gives);
}

// Matches one receive that was put aside, at the end of its moment.
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
    state.simulation->release(this);
  }
};

bool DistributedContext::State::put_aside(Group& group, Message& message) {
  ScheduleChoices* const choices = simulation->choices();
  const bool is_from_any = !message.is_send && message.event.peer < 0;
  if (choices == nullptr || !is_from_any || !choices->defers_matches()) return false;
  const auto later = std::make_shared<SettleLater>(
      SettleLater{*this, group.shared_from_this(), Mailbox::make_address(message)});
  simulation->keep(later);
  simulation->machine().engine().schedule_last(
      sim::Engine::call<&SettleLater::settle>(later.get()));
  message.is_deferred = true;
  group.mailbox.put(std::move(message));
  return true;
}

}  // namespace kernbench::distributed
