// Numbers that were cast to an enumeration and are none of its values.

#include <catch2/catch.hpp>

#include "runtime/functional/functional.h"
#include "test/runtime/distributed/local_world.h"
#include "test/runtime/tl/tl_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::enumerators_test {
namespace {

TEST_CASE("a tensor is of a type and a placement that there are", "[enumerators][error]") {
  RuntimeContext torch(round_topology());
  CHECK_THAT(error_of<DeviceError>([&] { torch.zeros({4}, {.dtype = DType{77}, .name = "x"}); }),
             test::Says("KB-M014", "'x'", "77"));
  CHECK_THAT(error_of<DeviceError>([&] { torch.zeros({4}, {.dp = {.cube = Shard{9}}}); }),
             test::Says("KB-K010", "9", "row_wise", "column_wise"));
  CHECK(error_of<DeviceError>([&] {
          torch.zeros({4}, {.dp = {.pe = Shard{255}}});
        }).starts_with("[KB-K010] DPPolicy: pe = 255 is no Shard; "));
}

TEST_CASE("operators take the values that there are", "[enumerators][error]") {
  RuntimeContext torch(round_topology());
  const Tensor logits = torch.zeros({2, 2}, {.dp = DPPolicy::on_one_pe()});
  const Tensor targets = torch.zeros({2}, {.dp = DPPolicy::on_one_pe()});
  CHECK_THAT(error_of<DeviceError>([&] {
               nn::functional::cross_entropy(logits, targets,
                                             {.reduction = nn::functional::Reduction{7}});
             }),
             Catch::StartsWith("[KB-F001] cross_entropy: ") &&
                 Catch::Contains("there is no Reduction 7; there are: mean, sum, none"));
  CHECK_THAT(
      error_of<DeviceError>([&] { nn::functional::gelu(logits, nn::functional::Approximate{2}); }),
      test::Says("KB-F001", "there", "2"));
}

TEST_CASE("a reduction of collectives is one that there is", "[enumerators][error]") {
  LocalWorld world(2);
  world.spawn([&](int) {
    CHECK_THAT(LocalWorld::refusal([&] { world.dist.all_reduce(world.tensor({1}), ReduceOp{99}); }),
               test::Says("KB-C020", "99", "there"));
    CHECK(LocalWorld::refusal([&] {
            world.dist.batch_isend_irecv({{.op = distributed::PointToPoint{5}}});
          }).starts_with("[KB-C020] Invalid ``op``. "));
  });
}

TEST_CASE("kernels name types, directions and activations that there are",
          "[enumerators][tl][error]") {
  TlUnderTest tl_under_test;
  const tl::Pointer p = tl_under_test.input({1, 2, 3, 4});
  const auto error = [&](const TlUnderTest::Body& body) { return tl_under_test.error(body); };
  const auto says_type = [](const char* operation) {
    return test::Says("KB-K021", operation, "'k'", "sip0.cube0.pe0", "77", "f16", "f8e5m2");
  };
  CHECK_THAT(error([&](tl::Context& tl) { tl.zeros({4}, DType{77}); }), says_type("tl.zeros"));
  CHECK_THAT(error([&](tl::Context& tl) { tl.arange(0, 4, DType{77}); }), says_type("tl.arange"));
  CHECK_THAT(error([&](tl::Context& tl) { tl.cast(tl.load(p, {4}, DType::f32), DType{77}); }),
             says_type("tl.cast"));
  CHECK_THAT(error([&](tl::Context& tl) { tl.load(p, {4}, DType{77}); }),
             test::Says("KB-K021", "tl.load", "'k'", "sip0.cube0.pe0", "'in'"));
  CHECK_THAT(
      error([&](tl::Context& tl) { tl.send(sim::Direction{99}, tl.load(p, {4}, DType::f32)); }),
      test::Says("KB-Q006", "tl.send", "'k'", "sip0.cube0.pe0"));
  CHECK_THAT(error([&](tl::Context& tl) { tl.recv(sim::Direction{8}, {4}, DType::f32); }),
             Catch::StartsWith("[KB-Q006] tl.recv in kernel 'k' on sip0.cube0.pe0: "));
  CHECK_THAT(
      error([&](tl::Context& tl) {
        tl.composite(
            {.a = p, .b = p, .c = p, .m = 2, .n = 2, .k = 2, .activation = tl::Activation{77}});
      }),
      test::Says("KB-K036", "tl.composite", "'k'", "sip0.cube0.pe0", "77"));
}

TEST_CASE("no option of a context may be negative", "[enumerators][error]") {
  const auto error = [](const RuntimeOptions& options) {
    return error_of<CollectiveError>(
        [&] { const RuntimeContext torch(round_topology(), options); });
  };
  CHECK_THAT(error({.command_limit = -5}), test::Says("KB-R018", "command_limit", "5"));
  CHECK(error({.evaluation_threads = -1})
            .starts_with("[KB-R018] RuntimeOptions::evaluation_threads is -1; "));
  CHECK(error({.kernel_time_limit = std::chrono::milliseconds(-1)}).starts_with("[KB-R018] "));
  CHECK(error({.rank_time_limit = std::chrono::milliseconds(-1)}).starts_with("[KB-R018] "));
}

TEST_CASE("a topology that no file could describe is refused", "[enumerators][topology][error]") {
  const auto error = [](const auto& change) {
    Topology topology = round_topology();
    change(topology);
    return error_of<ConfigError>([&] { const RuntimeContext torch(topology); });
  };
  CHECK_THAT(error([](Topology& t) { t.system.topology = SipTopology{9}; }),
             test::Says("KB-Y037", "'round'", "system.sips.topology", "9", "ring_1d", "torus_2d",
                        "mesh_2d_no_wrap"));
  CHECK(error([](Topology& t) {
          t.pe.gemm.dataflow = Dataflow{3};
        }).starts_with("[KB-Y037] topology 'round': pe.gemm.dataflow is 3; "));
  CHECK(error([](Topology& t) {
          t.sip.io_edge = Edge{4};
        }).starts_with("[KB-Y037] topology 'round': sip.io_chiplet.edge is 4; "));
  CHECK_THAT(error([](Topology& t) { t.cube.corners.clear(); }),
             test::Says("KB-Y037", "'round'", "cube.pe_layout.corners", "0", "1"));
  CHECK(error([](Topology& t) {
          t.system.sip_count = -1;
        }).starts_with("[KB-Y037] topology 'round': system.sips.count is -1; "));
  CHECK_THAT(error([](Topology& t) { t.system.sip_link.bandwidth = Bandwidth{0}; }),
             test::Says("KB-Y037", "'round'", "system.sip_link.bandwidth", "0"));
}

}  // namespace
}  // namespace kernbench::test::enumerators_test
