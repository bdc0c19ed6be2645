#include "sim_engine/components/switch_sum.h"

#include <algorithm>
#include <utility>

#include "sim_engine/base/check.h"

namespace kernbench::sim {

SwitchSum::SwitchSum(PeServices& services, std::vector<Member> members)
    : services_(services),
      queues_(std::move(members)),
      path_(services.fabric.path({Endpoint::Kind::network, {}}, {Endpoint::Kind::network, {}})) {
  for (const Member& member : queues_) member.to->set_receiver(*this);
  reset();
}

const SwitchSum::Member& SwitchSum::of_sip(int sip) const {
  const auto found = std::ranges::find_if(
      queues_, [&](const Member& member) { return member.to->ends().from.sip == sip; });
  KB_CHECK(found != queues_.end(), "sip{} sends nothing to this sum", sip);
  return *found;
}

void SwitchSum::reset() {
  lanes_.assign(queues_.size(), {});
  being_summed_.clear();
  for (std::size_t member = 0; member < queues_.size(); ++member) {
    // Known to the PE before it sends anything.
    const Time long_ago = -queues_[member].to->credit_time();
    for (int i = 0; i < kAhead; ++i) post(member, long_ago);
  }
}

void SwitchSum::post(std::size_t member, Time issued) {
  lanes_[member].posts.push_back(queues_[member].to->post(*this, {}, issued));
}

void SwitchSum::receive(IpcqChannel& channel, IpcqPost&, IpcqMessage) {
  KB_CHECK(false, "{} has no slots", channel.name());
}

void SwitchSum::receive_in_place(IpcqChannel& channel, IpcqPost&, IpcqMessage message) {
  const auto from =
      std::ranges::find_if(queues_, [&](const Member& other) { return other.to == &channel; });
  Lane& lane = lanes_[static_cast<std::size_t>(from - queues_.begin())];
  channel.close_post(lane.posts.front());
  lane.posts.pop_front();
  lane.arrived.push_back(std::move(message));
  if (std::ranges::none_of(lanes_, [](const Lane& one) { return one.arrived.empty(); })) add_up();
}

void SwitchSum::add_up() {
  IpcqMessage sum = std::exchange(lanes_.front().arrived.front(), {});
  for (std::size_t member = 0; member < lanes_.size(); ++member) {
    Lane& lane = lanes_[member];
    const IpcqMessage& next = lane.arrived.front();
    if (member > 0) {
      KB_CHECK(next.dtype == sum.dtype && next.bytes == sum.bytes,
               "{} B and {} B meet at the switch", sum.bytes, next.bytes);
      sum.value = services_.memory.math(op_, sum.value, next.value);
    }
    lane.arrived.pop_front();
    post(member, services_.engine.now());
  }
  const Bytes bytes = sum.bytes;
  being_summed_.push_back(std::move(sum));
  services_.fabric.send(path_, bytes, Engine::call<&SwitchSum::summed>(this), Time{0},
                        Priority::communication);
}

void SwitchSum::summed() {
  for (std::size_t member = 0; member < lanes_.size(); ++member) {
    lanes_[member].sums.push_back(being_summed_.front());
    send(member);
  }
  being_summed_.pop_front();
}

// Sends what the PE's posted receives are known for.
void SwitchSum::send(std::uint64_t member) {
  Lane& lane = lanes_[member];
  IpcqChannel& queue = *queues_[member].from;
  const Time now = services_.engine.now();
  while (!lane.sums.empty() && !lane.is_scheduled) {
    const std::optional<Time> known = queue.next_post();
    if (!known) return queue.wake_on_post(Engine::call<&SwitchSum::send>(this, member));
    if (*known > now) {
      lane.is_scheduled = true;
      services_.engine.schedule<&SwitchSum::send_later>(*known - now, this, member);
      return;
    }
    lane.on_the_way.push_back({queue.take_post(), std::move(lane.sums.front())});
    lane.sums.pop_front();
    services_.fabric.send(queue.copy_path(),
                          queue.params().on_the_wire(lane.on_the_way.back().message.bytes),
                          Engine::call<&SwitchSum::delivered>(this, member),
                          queue.params().message_latency, Priority::communication);
  }
}

void SwitchSum::send_later(std::uint64_t member) {
  lanes_[member].is_scheduled = false;
  send(member);
}

void SwitchSum::delivered(std::uint64_t member) {
  Lane& lane = lanes_[member];
  Outgoing first = std::move(lane.on_the_way.front());
  lane.on_the_way.pop_front();
  queues_[member].from->deliver_in_place(first.number, std::move(first.message));
}

}  // namespace kernbench::sim
