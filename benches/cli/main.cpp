#include "benches/cli/program.h"
#include "benches/collectives/calibrate.h"
#include "benches/collectives/collectives.h"
#include "benches/collectives/overlap.h"
#include "benches/evaluation/milestones.h"
#include "benches/gemm/gemm.h"
#include "benches/ipcq/ipcq.h"
#include "benches/tensor_parallel/tp_benches.h"
#include "benches/train/train.h"

int main(int argc, char** argv) {
  using namespace kernbench::benches;
  for (const auto bench : {calibrate_bench, ccl_allreduce_bench, collectives_bench, gemm_bench,
                           ipcq_bench, milestone_1h_ccl, milestone_1h_gemm, overlap_bench,
                           tp_mlp_bench, tp_transformer_bench, train_bench}) {
    register_bench(bench());
  }
  return kernbench::benches::main(argc, argv);
}
