#include <kernbench/kernbench.h>

#include <fmt/format.h>

namespace kb = kernbench;

// Each rank calls this; a rank is one device.
void worker(int rank, kb::RuntimeContext& torch) {
  torch.ahbm.set_device(rank);
  const kb::DPPolicy columns{.cube = kb::Shard::column_wise, .pe = kb::Shard::column_wise};
  kb::Tensor gradient = torch.full({1, 4096}, rank, {.dtype = kb::DType::f16, .dp = columns});
  torch.distributed.all_reduce(gradient);
  if (rank == 0) fmt::print("sum of all ranks: {}\n", gradient.at({0, 0}));
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} TOPOLOGY\n", argv[0]);
    return 2;
  }
  kb::RuntimeContext torch{kb::Topology::load(argv[1])};
  torch.distributed.init_process_group("ahbm");
  torch.multiprocessing.spawn(worker, std::forward_as_tuple(torch),
                              torch.distributed.get_world_size());
  fmt::print("time on the device: {} ns\n", torch.engine().critical_pe_exec_ns());
}
