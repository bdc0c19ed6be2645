#include "benches/bench/bench.h"
#include "benches/cli/program.h"
#include "benches/collectives/calibrate.h"
#include "benches/collectives/collectives.h"
#include "benches/collectives/overlap.h"
#include "benches/context/context.h"
#include "benches/ddp/ddp.h"
#include "benches/evaluation/milestones.h"
#include "benches/gemm/gemm.h"
#include "benches/ipcq/ipcq.h"
#include "benches/kernels/kernels.h"
#include "benches/moe/moe.h"
#include "benches/numerics/numerics.h"
#include "benches/pipeline/pipeline.h"
#include "benches/plan/plan.h"
#include "benches/stragglers/stragglers.h"
#include "benches/tensor_parallel/tp_benches.h"
#include "benches/train/train.h"

namespace kernbench::benches {

void register_shipped_benches() {
  for (const auto bench :
       {collectives::calibrate_bench, collectives::ccl_allreduce_bench,
        collectives::collectives_bench, context::context_bench, gemm::gemm_bench, ipcq::ipcq_bench,
        kernels::kernels_bench, evaluation::milestone_1h_ccl, evaluation::milestone_1h_gemm,
        moe::moe_bench, numerics::numerics_bench, collectives::overlap_bench, ddp::ddp_bench,
        pipeline::pipeline_bench, plan::plan_bench, stragglers::stragglers_bench,
        tensor_parallel::tp_mlp_bench, tensor_parallel::tp_transformer_bench, train::train_bench}) {
    register_bench(bench());
  }
}

}  // namespace kernbench::benches
