#include <fmt/format.h>

#include <utility>

#include "runtime/launch/kernel_launch.h"
#include "runtime/simulation/call_site.h"
#include "runtime/simulation/named_call.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/data_under_way.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench::runtime {

std::string describe(const LaunchName& launch) {
  const std::string text = fmt::format("kernel '{}'", launch.name);
  return launch.has_location() ? fmt::format("{} at {}", text, call_site(launch.location)) : text;
}

namespace {

bool is_on_one_device(const std::vector<sim::PeLocation>& pes) {
  return pes.front().sip == pes.back().sip;
}

LaunchRequest request_for(const LaunchName& launch, const Tensor& first, std::vector<Tensor> uses,
                          std::function<void(tl::Context&)> body) {
  LaunchRequest request{visible(launch.name), {}, std::move(body), {}};
  request.guard = make_store_guard(uses, [&] {
    return launch.has_location() ? fmt::format("wait for its Work before the launch at {}",
                                               call_site(launch.location))
                                 : std::string("wait for its Work first");
  });
  request.uses = std::move(uses);
  if (launch.has_location()) request.where = call_site(launch.location);
  for (const sim::DeviceBuffer& buffer : first.storage()->buffers()) {
    if (buffer.element_count > 0) request.pes.push_back(buffer.home);
  }
  return request;
}

}  // namespace

void launch(const LaunchName& name, const Tensor& first, std::vector<Tensor> uses,
            std::function<void(tl::Context&)> body, const HolderOptions& options) {
  Simulation& simulation = *first.storage()->simulation;
  check_outside_kernels(simulation, "a launch", [&] { return describe(name); });
  for (const Tensor& tensor : options.results == nullptr ? uses : *options.results) {
    compute_before_write(*tensor.storage()->memory);
  }
  for (const Tensor& tensor : uses) {
    compute_deferred(*tensor.storage()->memory);
    if (!tensor.storage()->memory->has_space) check_has_space(*tensor.storage(), describe(name));
  }
  if (name.has_location()) note_line(simulation, name.location);
  std::string what = describe(name) + describe_call(simulation);
  const bool may_queue = simulation.queues_launches() && options.lifetime == Body::owns;
  issue(simulation);
  for (const Tensor& tensor : uses) {
    check_may_touch(tensor, Touch::uses, [&] { return describe(name); });
  }
  LaunchRequest request = request_for(name, first, std::move(uses), std::move(body));
  request.what = std::move(what);
  request.results = options.results;
  request.has_end = options.has_end;
  request.operation = simulation.next_operation();
  simulation.begin(request.operation);
  if (request.pes.empty()) return;  // nobody holds an element
  const bool is_queued = may_queue && is_on_one_device(request.pes);
  const When otherwise = simulation.queues_launches() ? When::after_streams : When::now;
  launch(simulation, std::move(request), is_queued ? When::queued : otherwise);
}

tl::Pointer shard_pointer(const Tensor& tensor, const sim::PeLocation& pe) {
  const Tensor::Storage& storage = *tensor.storage();
  for (const sim::DeviceBuffer& buffer : storage.buffers()) {
    if (buffer.home == pe) return {buffer, storage.name};
  }
  return {};
}

}  // namespace kernbench::runtime
