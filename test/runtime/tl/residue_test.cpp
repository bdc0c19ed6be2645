// Messages that a launch leaves in queues inside a SIP.

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/processing_element.h"
#include "test/runtime/tl/pair_under_test.h"

namespace kernbench::test::residue_test {
namespace {

using Floats = std::vector<float>;
using tl::Direction;

TEST_CASE("messages that nobody has received when a launch is over are an error of its own",
          "[tl][ipcq][residue][error]") {
  PairUnderTest pair;
  // A launch takes 217.24 ns to its PEs, a load 53 ns; the second 16 B are there at 1.6 ns.
  CHECK_THAT(pair.device_error_of(sends(3), receives(1)),
             Says("KB-Q003", "'pair'", "2 messages (32 B, sent at 271.84 ns)",
                  "sip0.cube0.pe0 east -> sip0.cube0.pe1 west"));
  CHECK_THAT(pair.device_error_of(sends(1), receives(0)), Says("KB-Q003", "left 1 message that"));
}

TEST_CASE("every queue with messages is named", "[tl][ipcq][residue][error]") {
  PairUnderTest pair;
  const std::string text = pair.device_error_of(sends(1), [](tl::Context& tl, tl::Pointer p) {
    tl.send(Direction::west, tl.load(p, {8}, DType::f32));
  });
  CHECK_THAT(text,
             Says("KB-Q003", "2 messages", "1 message (16 B, sent at",
                  "ipcq sip0.cube0.pe0 east -> sip0.cube0.pe1 west", "1 message (32 B, sent at",
                  "ipcq sip0.cube0.pe1 west -> sip0.cube0.pe0 east"));
}

TEST_CASE("after messages were left the queues are as new", "[tl][ipcq][residue]") {
  const std::uint32_t first = GENERATE(0U, 0xfffffffdU);
  PairUnderTest pair({.depth = 2, .first_number = first});
  for (int i = 0; i < 5; ++i) {
    CHECK_FALSE(pair.device_error_of(sends(2), receives(i % 2)) == "no error");
    CHECK(simulation_of(pair.torch).machine().pe(PairUnderTest::kSecond).scratch_in_use() == 0);
    pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 7), {4000}));
    CHECK(pair.credits(0) == 2);
    pair.run(sends(3), receives(3));
    CHECK(pair.x.shard_to_vector(1)[3] == 7);
    pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 8), {4000}));
    pair.run(sends(1), receives(1));
    CHECK(pair.x.shard_to_vector(1)[3] == 8);
  }
}

TEST_CASE("a kernel's failure comes before what it leaves", "[tl][ipcq][residue][error]") {
  PairUnderTest pair;
  CHECK_THAT(pair.device_error_of(
                 sends(2), [](tl::Context&, tl::Pointer) { throw std::runtime_error("boom"); }),
             Says("KB-K001", "'pair' on sip0.cube0.pe1", "boom"));
  pair.run(sends(2), receives(2));
}

TEST_CASE("messages from SIP to SIP may wait for another launch", "[tl][ipcq][residue]") {
  RuntimeContext torch(round_topology());
  sim::Machine& machine = simulation_of(torch).machine();
  machine.connect({{0, 0, 0}, Direction::global_east, {1, 0, 0}, Direction::global_west}, {});
  const TensorOptions one_pe{.dp = DPPolicy::on_one_pe()};
  Tensor x = torch.ones({4}, one_pe);
  torch.ahbm.set_device(1);
  Tensor y = torch.zeros({4}, one_pe);
  torch.launch(
      "send",
      [](tl::Context& tl, tl::Pointer p) {
        tl.send(Direction::global_east, tl.load(p, {4}, DType::f32));
      },
      x);
  torch.launch(
      "receive",
      [](tl::Context& tl, tl::Pointer p) {
        tl.store(p, tl.recv(Direction::global_west, {4}, DType::f32));
      },
      y);
  CHECK(y.to_vector<float>() == Floats(4, 1));
}

}  // namespace
}  // namespace kernbench::test::residue_test
