// Traces in the form of PyTorch's profiler, read by HTA's rules: its figures are ours.

#include "runtime/profiler/kineto.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/run_ranks.h"
#include "test/ccl/temporal_breakdown.h"
#include "test/support/small_topology.h"

namespace kernbench::test::kineto_test {
namespace {

using Json = nlohmann::json;

void multiply(tl::Context& tl, tl::Pointer, std::int64_t n) {
  const tl::Tensor a = tl.zeros({n, n}, DType::f32);
  tl.dot(a, a);
}

// Rank 1 multiplies longest; a collective runs beside a kernel; messages and idle time follow.
void run_program(RuntimeContext& torch) {
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, 3, [&](int rank) {
    const Tensor x = torch.zeros({4096}, {.dp = DPPolicy::on_one_pe()});
    const Tensor y = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
    const profiler::record_function scope(torch, "step \"1\"");
    const distributed::Work work = torch.distributed.all_reduce(x, {.async_op = true});
    torch.launch("multiply", multiply, y, std::int64_t{rank == 1 ? 256 : 64});
    work.wait();
    if (rank == 0) torch.distributed.send(x, 2);
    if (rank == 2) torch.distributed.recv(x, 0);
    if (rank == 2) torch.launch("last", multiply, y, std::int64_t{64});
  });
  torch.distributed.destroy_process_group();
}

Topology ring_with_array() {
  Topology topology = link_topology(SipTopology::ring_1d, 3);
  topology.pe.gemm = {.rows = 16, .columns = 16, .clock = Frequency{1'000'000'000}};
  return topology;
}

TEST_CASE("HTA's temporal breakdown of the traces is that of the profile, to the picosecond",
          "[ccl][profile][kineto]") {
  RuntimeContext torch(ring_with_array(), {.profile = true});
  run_program(torch);
  const runtime::Profile profile = torch.engine().profile();
  const std::vector<std::string> traces = runtime::kineto_traces(simulation_of(torch));
  REQUIRE(traces.size() == profile.ranks.size());
  for (const runtime::RankTime& rank : profile.ranks) {
    CAPTURE(rank.rank);
    const TemporalBreakdown by_hta =
        temporal_breakdown_of(traces.at(static_cast<std::size_t>(rank.rank)));
    CHECK(by_hta.rank == rank.rank);
    CHECK(by_hta.kernel_time == profile.duration());
    CHECK(by_hta.compute == rank.compute_only + rank.both);
    CHECK(by_hta.non_compute == rank.exposed);
    CHECK(by_hta.idle == rank.idle);
    CHECK(by_hta.overlapped == rank.both);
    CHECK(rank.both > Time{0});
  }
}

TEST_CASE("a call that its rank learns of later has ended when it was over", "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(), {.profile = true});
  run_program(torch);
  const runtime::Profile profile = torch.engine().profile();
  Time exposed{0};
  for (const runtime::RankTime& rank : profile.ranks) exposed += rank.exposed;
  Time in_rows{0};
  for (const runtime::OperationRow& row : profile.operations) in_rows += row.exposed;
  CHECK(in_rows == exposed);  // no two calls of a rank are under way at once
}

TEST_CASE("each rank has a file, with its launches, scopes and calls", "[ccl][profile][kineto]") {
  RuntimeContext torch(ring_with_array());
  const profiler::profile prof(torch);
  run_program(torch);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "kineto_test_traces" / "new";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "rank3.json") << "of an earlier run with more ranks";
  prof.export_kineto_traces(folder);
  CHECK_FALSE(std::filesystem::exists(folder / "rank3.json"));
  std::vector<std::string> names;
  for (int rank = 0; rank < 3; ++rank) {
    std::ifstream file(folder / runtime::kineto_file_name(static_cast<std::size_t>(rank)));
    const Json document = Json::parse(file);
    CHECK(document["distributedInfo"]["rank"] == rank);
    CHECK(document["distributedInfo"]["world_size"] == 3);
    for (const Json& event : document["traceEvents"]) {
      if (rank == 0) names.push_back(event["name"]);
    }
  }
  std::filesystem::remove_all(folder.parent_path());
  CHECK(names == std::vector<std::string>{
                     "Memset (begin)", "step \"1\"", "ncclKernel_all_reduce_intercube_allreduce",
                     "cudaLaunchKernel", "multiply", "ncclKernel_send", "Memset (end)"});
}

}  // namespace
}  // namespace kernbench::test::kineto_test
