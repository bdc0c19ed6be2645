#include "ccl/algorithms/ring_allreduce.h"

#include "ccl/algorithms/exchange.h"

namespace kernbench::ccl {

namespace {

void all_reduce_on_ring(tl::Context& tl, const KernelArgs& args, int colours) {
  const RingPlace& place = args.ring();
  const Dimension ring{place.size, place.index, true, place.next, place.previous};
  const auto exchange = [&](std::span<Chunk> chunks) {
    std::vector<std::span<Chunk>> by_colour;
    const auto size = static_cast<std::size_t>(ring.size);
    for (std::size_t first = 0; first < chunks.size(); first += size) {
      by_colour.push_back(chunks.subspan(first, size));
    }
    ring.reduce_scatter(tl, by_colour);
    ring.all_gather(tl, by_colour);
  };
  all_reduce_in_segments(tl, args, colours * ring.size, exchange);
}

}  // namespace

void ring_allreduce(tl::Context& tl, const KernelArgs& args) {
  all_reduce_on_ring(tl, args, 1);
}

void bidirectional_ring_allreduce(tl::Context& tl, const KernelArgs& args) {
  all_reduce_on_ring(tl, args, 2);
}

}  // namespace kernbench::ccl
