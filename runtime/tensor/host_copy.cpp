#include "runtime/tensor/host_copy.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "runtime/simulation/call_site.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/stream/stream_races.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/fabric.h"

namespace kernbench::runtime {

namespace {

class HostCopy {
 public:
  HostCopy(Tensor target, std::vector<ShardWrite> writes)
      : target_(std::move(target)), writes_(std::move(writes)), under_way_(writes_.size()) {
    storage().begin_use();
  }
  ~HostCopy() { storage().end_use(); }

  void run();

 private:
  Tensor::Storage& storage() { return *target_.storage(); }
  void send(std::uint64_t index, sim::Endpoint::Kind from);
  void landed(std::uint64_t index);
  const sim::Value& find_or_make_value(const ShardWrite& write);

  const Tensor target_;
  const std::vector<ShardWrite> writes_;
  // Never iterated: the values, and what is still to be written of them.
  std::map<const HostElements*, sim::Value> values_;
  std::map<const HostElements*, std::vector<std::uint64_t>> further_;
  std::size_t under_way_;
  Completion done_{*target_.storage()->simulation};
  Time started_{0};
};

// Equal elements cross the host link once; their further copies leave the IO chiplet (ADR-0033).
void HostCopy::run() {
  Simulation& simulation = *storage().simulation;
  started_ = simulation.now();
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    const auto [place, is_first] = further_.try_emplace(writes_[i].elements.get());
    if (is_first) {
      send(i, sim::Endpoint::Kind::host);
    } else {
      place->second.push_back(i);
    }
  }
  simulation.wait(done_, [&] { return fmt::format("copy_ into tensor '{}'", storage().name); });
}

void HostCopy::send(std::uint64_t index, sim::Endpoint::Kind from) {
  const sim::DeviceBuffer& buffer = storage().buffers().at(writes_[index].shard);
  sim::Fabric& fabric = storage().simulation->machine().fabric();
  const sim::Path& path =
      fabric.path({from, {buffer.home.sip, 0, 0}}, {sim::Endpoint::Kind::hbm, buffer.home});
  fabric.send(path, buffer.element_count * size_of(buffer.dtype),
              sim::Engine::call<&HostCopy::landed>(this, index));
}

const sim::Value& HostCopy::find_or_make_value(const ShardWrite& write) {
  const auto [place, is_new] = values_.try_emplace(write.elements.get());
  if (is_new) {
    place->second = std::visit(
        [&](const auto& elements) {
          return storage().simulation->machine().memory().literal(storage().dtype,
                                                                  std::span(elements));
        },
        *write.elements);
  }
  return place->second;
}

void HostCopy::landed(std::uint64_t index) {
  const ShardWrite& write = writes_[index];
  const sim::DeviceBuffer& buffer = storage().buffers()[write.shard];
  sim::Machine& machine = storage().simulation->machine();
  machine.memory().store(buffer.region, buffer.first, find_or_make_value(write));
  const sim::OpRecord op{sim::OpKind::copy_in,
                         buffer.dtype,
                         sim::pe_number(machine.topology(), buffer.home),
                         started_,
                         machine.engine().now(),
                         buffer.element_count * size_of(buffer.dtype),
                         buffer.element_count};
  machine.op_log().append(op);
  // The fingerprint of a run covers host copies as well as commands.
  machine.engine().fold(digest(op, sim::pes_of_sip(machine.topology())), buffer.home.sip);
  for (const std::uint64_t further : std::exchange(further_[write.elements.get()], {})) {
    send(further, sim::Endpoint::Kind::io_cpu);
  }
  if (--under_way_ == 0) done_.signal();
}

// The parts of a tensor on their way to the host.
class HostFetch {
 public:
  explicit HostFetch(Tensor source) : source_(std::move(source)) {
    source_.storage()->begin_use();
  }
  ~HostFetch() { source_.storage()->end_use(); }

  void run() {
    Tensor::Storage& storage = *source_.storage();
    std::set<std::vector<std::int64_t>> fetched;
    for (std::size_t i = 0; i < storage.shards.size(); ++i) {
      const ShardInfo& shard = storage.shards[i];
      if (shard.shape.numel() == 0 || !fetched.insert(shard.offset).second) continue;
      send(storage.buffers()[i].home, shard.shape.numel() * size_of(storage.dtype));
    }
    if (under_way_ == 0) return;
    storage.simulation->wait(
        done_, [&] { return fmt::format("tensor '{}' to come to the host", storage.name); });
  }

 private:
  void send(const sim::PeLocation& home, Bytes bytes) {
    sim::Fabric& fabric = source_.storage()->simulation->machine().fabric();
    const sim::Path& path = fabric.path({sim::Endpoint::Kind::hbm, home},
                                        {sim::Endpoint::Kind::host, {home.sip, 0, 0}});
    ++under_way_;
    fabric.send(path, bytes, sim::Engine::call<&HostFetch::landed>(this, 0));
  }
  void landed(std::uint64_t /*part*/) {
    if (--under_way_ == 0) done_.signal();
  }

  const Tensor source_;
  std::size_t under_way_ = 0;
  Completion done_{*source_.storage()->simulation};
};

// Without a `dp` each PE of the device has a copy, which few programs need and each copy_ pays for.
void hint_at_placement(const Tensor& target, std::size_t transfers) {
  if (transfers < 2 || target.dp() != DPPolicy{} || std::getenv("KERNBENCH_DEBUG") == nullptr) {
    return;
  }
  fmt::print(stderr,
             "kernbench: hint: copy_ into tensor '{}' {} makes {} transfers: without a `dp` it has "
             "a copy on each PE; DPPolicy::on_one_pe() makes one, column_wise parts\n",
             target.name(), to_string(target.shape()), transfers);
}

// The host writes in the order of the current stream, and waits for it alone: what another rank has
// launched may wait for this one (ADR-0027).
void take_turn(const Tensor& target, std::string_view function) {
  Simulation& simulation = *target.storage()->simulation;
  const StreamQueue& stream = synchronize_current_stream(simulation, target.device());
  auto& races = simulation.attachments().get<StreamRaces>();
  if (!races.is_watching()) return;
  const auto what = std::make_shared<const std::string>(function);
  for (const sim::DeviceBuffer& buffer : target.storage()->buffers()) {
    races.access(simulation.machine().memory(), buffer.region, {buffer.first, buffer.element_count},
                 {stream.position(), what, true}, target.name(), [&] { return *what; });
  }
}

}  // namespace

void copy_from_host(const Tensor& target, std::vector<ShardWrite> writes, std::string_view function,
                    const std::source_location& location) {
  if (writes.empty()) return;
  Simulation& simulation = *target.storage()->simulation;
  check_on_device(target, function);
  check_may_touch(target, Touch::writes,
                  [&] { return fmt::format("{} at {}", function, call_site(location)); });
  if (simulation.queues_launches()) take_turn(target, function);
  hint_at_placement(target, writes.size());
  target.storage()->memory->note_write(simulation.next_write());
  const auto copy = std::make_shared<HostCopy>(target, std::move(writes));
  // Transfers under way refer to the copy even when the caller is unwound.
  simulation.keep(copy);
  copy->run();
  simulation.release(copy.get());
}

Time carry_to_host(const Tensor& x) {
  Simulation& simulation = *x.storage()->simulation;
  begin_host_read(*x.storage(), HostRead::indices);
  const Time begin = simulation.now();
  const auto fetch = std::make_shared<HostFetch>(x);
  // Transfers under way refer to it even when the caller is unwound.
  simulation.keep(fetch);
  fetch->run();
  simulation.release(fetch.get());
  return simulation.now() - begin;
}

Tensor copy_on(const Tensor& x, int device) {
  const Tensor::Storage& from = *x.storage();
  const int count = from.simulation->topology().system.sip_count;
  if (device < 0 || device >= count) {
    throw CollectiveError("KB-R003", "invalid device ordinal {}: there are devices 0 to {}", device,
                          count - 1);
  }
  Tensor copy(make_device_storage(from.simulation, device, x.shape(),
                                  {.dtype = x.dtype(), .dp = x.dp(), .name = x.name()}));
  copy_elements(copy, x);
  return copy;
}

}  // namespace kernbench::runtime
