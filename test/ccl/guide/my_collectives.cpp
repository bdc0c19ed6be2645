// The algorithms of the guide ccl/writing-a-collective.md: every piece between two markers stands
// in it, word for word.

// guide: begin
#include <kernbench/kernbench.h>

namespace kb = kernbench;
namespace tl = kernbench::tl;
// guide: end

// guide: begin
// Everyone sends its values to the next in the ring, and keeps those of the one before.
void my_hello(tl::Context& tl, const kb::ccl::KernelArgs& args) {
  const kb::ccl::RingPlace& ring = args.ring();
  const tl::Shape shape{args.n_elem};
  tl.send(ring.next, tl.load(args.tensor, shape, args.dtype));
  tl.store(args.tensor, tl.recv(ring.previous, shape, args.dtype));
}

const bool has_my_hello =
    kb::ccl::register_algorithm({.name = "my_hello", .kernel = my_hello, .collective = "shift"});
// guide: end

// guide: begin
// Each rank's values travel once round the ring, and are added on the way.
void rotate_and_add(tl::Context& tl, const kb::ccl::KernelArgs& args) {
  const kb::ccl::RingPlace& ring = args.ring();
  const tl::Shape shape{args.n_elem};
  tl::Tensor travelling = tl.load(args.tensor, shape, args.dtype);
  tl::Tensor sum = travelling;
  for (int step = 1; step < ring.size; ++step) {
    tl.send(ring.next, travelling);
    travelling = tl.recv(ring.previous, shape, args.dtype);
    sum = sum + travelling;
  }
  tl.store(args.tensor, sum);
}

KERNBENCH_REGISTER_ALGORITHM("rotate_and_add", rotate_and_add);
// guide: end

// guide: begin
// A chunk for each rank.  Partial sums travel round the ring until each rank has the whole sum of
// its own chunk (reduce-scatter); then the sums travel round (all-gather).
void my_ring(tl::Context& tl, const kb::ccl::KernelArgs& args) {
  const kb::ccl::RingPlace& ring = args.ring();
  const std::vector<kb::ccl::Piece> chunks = kb::ccl::cut(0, args.n_elem, ring.size);
  std::vector<tl::Tensor> values;
  for (const kb::ccl::Piece& chunk : chunks) {
    values.push_back(tl.load(args.tensor + chunk.begin, chunk.shape(), args.dtype));
  }
  // The chunk of the rank that stands so many places behind in the ring.
  const auto chunk_of = [&](int behind) -> tl::Tensor& {
    return values[static_cast<std::size_t>((ring.index - behind + ring.size) % ring.size)];
  };
  for (int step = 1; step < ring.size; ++step) {
    tl.send(ring.next, chunk_of(step));
    tl::Tensor& chunk = chunk_of(step + 1);
    chunk = chunk + tl.recv(ring.previous, chunk.shape(), args.dtype);
  }
  for (int step = 0; step + 1 < ring.size; ++step) {
    tl.send(ring.next, chunk_of(step));
    tl::Tensor& chunk = chunk_of(step + 1);
    chunk = tl.recv(ring.previous, chunk.shape(), args.dtype);
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    tl.store(args.tensor + chunks[i].begin, values[i]);
  }
}
// guide: end

// guide: begin
// 2 (P - 1) steps, each of which takes the latency of a link and one chunk.
std::optional<kb::Time> my_ring_time(const kb::ccl::CollectiveCase& of) {
  const int ranks = of.topology.system.sip_count;
  if (of.config.world_size() || of.n_elem % ranks != 0) return std::nullopt;  // not known
  const kb::LinkSpec& link = of.topology.system.sip_link;
  const kb::Bytes chunk = of.n_elem / ranks * kb::size_of(of.dtype);
  return 2 * (ranks - 1) * (link.latency + kb::transfer_time(chunk, link.bandwidth));
}

const bool has_my_ring =
    kb::ccl::register_algorithm({.name = "my_ring",
                                 .kernel = my_ring,
                                 .summary = "reduce-scatter and all-gather, one chunk a message",
                                 .closed_form = my_ring_time,
                                 .form = "2 (P - 1) a + 2 (P - 1)/P n b"});
// guide: end

// guide: begin
void receive_first(tl::Context& tl, const kb::ccl::KernelArgs& args) {
  const tl::Shape shape{args.n_elem};
  const tl::Tensor own = tl.load(args.tensor, shape, args.dtype);
  const tl::Tensor got = tl.recv(args.ring().previous, shape, args.dtype);
  tl.send(args.ring().next, own);
  tl.store(args.tensor, own + got);
}

KERNBENCH_REGISTER_ALGORITHM("receive_first", receive_first);
// guide: end

// guide: begin
void one_too_many(tl::Context& tl, const kb::ccl::KernelArgs& args) {
  const kb::ccl::RingPlace& ring = args.ring();
  const tl::Shape shape{args.n_elem};
  tl::Tensor sum = tl.load(args.tensor, shape, args.dtype);
  tl.send(ring.next, sum);
  for (int step = 1; step < ring.size; ++step) {
    const tl::Tensor travelling = tl.recv(ring.previous, shape, args.dtype);
    sum = sum + travelling;
    tl.send(ring.next, travelling);  // also in the last step, when nobody waits for it
  }
  tl.store(args.tensor, sum);
}

KERNBENCH_REGISTER_ALGORITHM("one_too_many", one_too_many);
// guide: end

// guide: begin
// The same ring as a plan: what each member does with each chunk, and when.
void plan_my_ring(const kb::ccl::PlanRequest& request, kb::ccl::Plan& plan) {
  const kb::ccl::Row& ring = request.shape.ring;
  const int self = ring.position_of(request.self);
  const int last = ring.size() - 1;
  plan.chunk_count = ring.size();  // a chunk for each member
  plan.length = 2 * last + 1;      // steps, and the last one's end
  for (int target = 0; target <= last; ++target) {
    const kb::ccl::Branch sums = ring.branch(self, target, 0);        // come from behind
    const kb::ccl::Branch results = ring.branch(self, target, last);  // go ahead
    plan.all_reduce({target, target + 1}, sums, results, last);
  }
}

const bool has_my_planned_ring = kb::ccl::register_algorithm({.name = "my_planned_ring",
                                                              .plan = plan_my_ring,
                                                              .summary = "my_ring of any size",
                                                              .reduces_in_sip = true,
                                                              .suits_auto = true});
// guide: end
