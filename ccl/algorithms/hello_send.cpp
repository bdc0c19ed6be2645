#include "ccl/algorithms/hello_send.h"

#include <algorithm>

namespace kernbench::ccl {

void hello_send(tl::Context& tl, const KernelArgs& args) {
  const RingPlace& ring = args.ring();
  if (ring.size == 1) return;
  for (std::int64_t begin = 0; begin < args.n_elem; begin += args.slot_elements) {
    const Shape shape{std::min(args.slot_elements, args.n_elem - begin)};
    tl.send(ring.next, tl.load(args.tensor + begin, shape, args.dtype));
    tl.store(args.tensor + begin, tl.recv(ring.previous, shape, args.dtype));
  }
}

}  // namespace kernbench::ccl
