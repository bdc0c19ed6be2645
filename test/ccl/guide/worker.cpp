// The other program of the guide ccl/writing-a-collective.md, without a command line.

// guide: begin
#include <fmt/format.h>
#include <kernbench/kernbench.h>

namespace kb = kernbench;

// Each rank calls this; a rank is one device.
void worker(int rank, kb::RuntimeContext& torch) {
  torch.ahbm.set_device(rank);
  kb::Tensor x = torch.full({1, 1024}, rank + 1, {.dtype = kb::DType::f16});
  torch.distributed.all_reduce(x);
  if (rank == 0) fmt::print("{}\n", x.at({0, 0}));  // 1 + 2 + 3 + 4
}

int main(int, char** argv) {
  const auto ccl = kb::ccl::Config::parse("defaults: {algorithm: my_ring, buffer_kind: sram}");
  kb::RuntimeContext torch(kb::Topology::load(argv[1]), {.ccl = ccl});
  torch.distributed.init_process_group("ahbm");
  torch.multiprocessing.spawn(worker, std::forward_as_tuple(torch),
                              torch.distributed.get_world_size());
  fmt::print("{} ns\n", torch.engine().critical_pe_exec_ns());
}
// guide: end
