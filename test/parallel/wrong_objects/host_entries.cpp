// What the host calls: launches, streams and events, collectives and messages.

#include <algorithm>
#include <iterator>

#include "test/parallel/wrong_objects/given.h"

namespace kernbench::test::wrong_objects {

namespace {

void one(tl::Context& tl, tl::Pointer x) {
  tl.store(x, tl.load(x, {1}, x.dtype()));
}
void two(tl::Context& tl, tl::Pointer x, tl::Pointer y) {
  tl.store(x, tl.load(y, {1}, y.dtype()));
}

// Launches a kernel that uses an object of the host, which is refused there.
template <class Use>
void in_kernel(Given& g, const Use& use) {
  const Tensor x = g.torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  g.torch.launch(
      "outer", [&](tl::Context&, tl::Pointer) { use(); }, x);
}

// The number of this rank's peer, or of nobody.
int peer(Given& g) {
  return g.below(8) == 0 ? static_cast<int>(g.size()) : 1 - g.rank;
}

// What one rank sends the other receives, each with the same arguments.
void exchange(Given& g) {
  const Tensor& x = g.tensor();
  const distributed::ProcessGroup& group = g.group();
  auto& dist = g.torch.distributed;
  look_at(g.rank == 0 ? dist.isend(x, 1, {.group = group}) : dist.irecv(x, 0, {.group = group}));
}

std::vector<Entry> stream_entries() {
  return {
      KB_ENTRY("torch.ahbm.Stream", g.torch.ahbm.Stream(g.dim())),
      KB_ENTRY("torch.ahbm.set_device", g.torch.ahbm.set_device(g.flag() ? g.rank : 7)),
      KB_ENTRY("torch.ahbm.set_stream", g.torch.ahbm.set_stream(g.stream())),
      KB_ENTRY("torch.ahbm.stream", [&] { const auto scope = g.torch.ahbm.stream(g.stream()); }()),
      KB_ENTRY("torch.ahbm.synchronize", g.torch.ahbm.synchronize(g.dim())),
      KB_ENTRY("Stream::wait_stream", g.stream().wait_stream(g.stream())),
      KB_ENTRY("Stream::wait_event", g.stream().wait_event(g.event())),
      KB_ENTRY("Stream::record_event", g.stream().record_event(g.event())),
      KB_ENTRY("Stream::record_event anew", g.stream().record_event()),
      KB_ENTRY("Stream::synchronize", g.stream().synchronize()),
      KB_ENTRY("Stream::query", g.stream().query()),
      KB_ENTRY("Event::record", g.event().record(g.stream())),
      KB_ENTRY("Event::wait", g.event().wait()),
      KB_ENTRY("Event::query", g.event().query()),
      KB_ENTRY("Event::synchronize", g.event().synchronize()),
      KB_ENTRY("Event::elapsed_time", g.event().elapsed_time(g.event())),
      KB_ENTRY("a stream in a kernel", in_kernel(g, [&] { g.stream().query(); })),
      KB_ENTRY("an event in a kernel", in_kernel(g, [&] { g.event().synchronize(); })),
      KB_ENTRY("an operator in a kernel", in_kernel(g, [&] { look_at(g.tensor() + g.tensor()); })),
      KB_ENTRY("a read in a kernel", in_kernel(g, [&] { g.tensor().to_vector(); })),
      KB_ENTRY("a write in a kernel", in_kernel(g, [&] { g.tensor().fill_(1); })),
      KB_ENTRY("backward in a kernel", in_kernel(g, [&] { g.tensor().backward(g.tensor()); })),
      KB_ENTRY("a collective in a kernel",
               in_kernel(g, [&] { g.torch.distributed.all_reduce(g.tensor()); })),
      KB_ENTRY("launch", g.torch.launch("one", one, g.tensor())),
      KB_ENTRY("launch of two", g.torch.launch("two", two, g.tensor(), g.tensor())),
      KB_ENTRY("launch of no line", g.torch.launch(
                                        "one", [&](tl::Context&, tl::Pointer) {}, g.tensor())),
      KB_ENTRY("pointer_to", RuntimeContext::pointer_to(g.tensor(), {})),
  };
}

std::vector<Entry> collective_entries() {
  using enum ReduceOp;
  return {
      KB_ENTRY("all_reduce",
               g.torch.distributed.all_reduce(g.tensor(), sum, {g.group(), g.flag()})),
      KB_ENTRY("all_reduce max", g.torch.distributed.all_reduce(g.tensor(), max)),
      KB_ENTRY("all_reduce band", g.torch.distributed.all_reduce(g.tensor(), band)),
      KB_ENTRY("broadcast", g.torch.distributed.broadcast(g.tensor(), static_cast<int>(g.below(4)),
                                                          {g.group(), g.flag()})),
      KB_ENTRY("reduce", g.torch.distributed.reduce(g.tensor(), static_cast<int>(g.below(4)))),
      KB_ENTRY("all_gather", g.torch.distributed.all_gather(g.tensors(), g.tensor())),
      KB_ENTRY("all_gather_into_tensor",
               g.torch.distributed.all_gather_into_tensor(g.tensor(), g.tensor(), {g.group()})),
      KB_ENTRY("reduce_scatter", g.torch.distributed.reduce_scatter(g.tensor(), g.tensors())),
      KB_ENTRY("reduce_scatter_tensor",
               g.torch.distributed.reduce_scatter_tensor(g.tensor(), g.tensor())),
      KB_ENTRY("all_to_all", g.torch.distributed.all_to_all(g.tensors(), g.tensors())),
      KB_ENTRY("all_to_all_single",
               g.torch.distributed.all_to_all_single(g.tensor(), g.tensor(), {g.size(), g.size()},
                                                     {g.size(), g.size()})),
      KB_ENTRY("gather",
               g.torch.distributed.gather(
                   g.tensor(), g.rank == 0 ? g.tensors() : (g.tensors(), std::vector<Tensor>()))),
      KB_ENTRY("scatter",
               g.torch.distributed.scatter(
                   g.tensor(), g.rank == 0 ? g.tensors() : (g.tensors(), std::vector<Tensor>()))),
      KB_ENTRY("barrier", g.torch.distributed.barrier({g.group(), g.flag()})),
      KB_ENTRY("isend and irecv", exchange(g)),
      KB_ENTRY("send to nobody", g.torch.distributed.isend(g.tensor(), 2 + g.dim() * g.dim())),
      KB_ENTRY("batch_isend_irecv",
               g.torch.distributed.batch_isend_irecv(
                   {{distributed::PointToPoint::isend, g.tensor(), peer(g), g.group()},
                    {distributed::PointToPoint::irecv, g.tensor(), peer(g), g.group()}})),
      KB_ENTRY("get_rank", g.torch.distributed.get_rank(g.group())),
      KB_ENTRY("get_process_group_ranks", g.torch.distributed.get_process_group_ranks(g.group())),
      KB_ENTRY("group.size", g.group().size()),
      KB_ENTRY("all_gather_object",
               [&] {
                 std::vector<int> all;
                 g.torch.distributed.all_gather_object(all, 1, g.group());
               }()),
  };
}

}  // namespace

std::vector<Entry> host_entries() {
  std::vector<Entry> entries = stream_entries();
  std::ranges::copy(collective_entries(), std::back_inserter(entries));
  return entries;
}

}  // namespace kernbench::test::wrong_objects
