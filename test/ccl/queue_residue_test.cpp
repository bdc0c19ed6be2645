// Messages that are left in a queue must not reach the next collective.

#include <catch2/catch.hpp>

#include "ccl/core/config.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::queue_residue_test {

namespace {

void all_reduce_on_every_rank(RuntimeContext& torch, bool leaves_a_message,
                              std::vector<std::vector<float>>& sums) {
  const auto worker = [&](int rank) {
    torch.ahbm.set_device(rank);
    Tensor x = torch.ones({6}, {.dp = DPPolicy::on_one_pe()});
    if (leaves_a_message && rank == 0) {
      torch.launch(
          "send_and_forget",
          [](tl::Context& tl, tl::Pointer p) {
            tl.send(tl::Direction::global_east, tl.load(p, {1}, DType::f32));
          },
          x);
    }
    torch.distributed.all_reduce(x);
    sums[static_cast<std::size_t>(rank)] = x.to_vector<float>();
  };
  torch.multiprocessing.spawn(worker, std::tuple{}, 3);
}

}  // namespace

TEST_CASE("a message that a kernel left behind is refused by the next collective, not added",
          "[ccl][errors]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 3, 1));
  torch.distributed.init_process_group("ahbm");
  std::vector<std::vector<float>> sums(3);
  try {
    all_reduce_on_every_rank(torch, true, sums);
    FAIL("no error");
  } catch (const SpawnException& error) {
    CHECK(error.rank() == 1);
    CHECK(error.exit_code() == ExitCode::device_fault);
    CHECK_THAT(error.what(),
               Catch::Contains("[KB-Q003] tl.recv in kernel 'intercube_allreduce' on "
                               "sip1.cube0.pe0: the oldest message of ipcq sip0.cube0.pe0 "
                               "global_east -> sip1.cube0.pe0 global_west (4 B, sent at ") &&
                   Catch::Contains("was left there by a kernel of the user's"));
  }
  all_reduce_on_every_rank(torch, false, sums);  // the queues are empty again
  for (const auto& sum : sums) CHECK(sum == std::vector<float>(6, 3.0F));
}

namespace {

// An all_reduce of the ring's neighbours that sends each a message too many on rank 1.
void sends_too_much(tl::Context& tl, const ccl::KernelArgs& args) {
  const Shape shape{args.n_elem};
  const tl::Tensor own = tl.load(args.tensor, shape, args.dtype);
  tl::Tensor travelling = own;
  tl::Tensor sum = own;
  for (int step = 1; step < args.world_size; ++step) {
    tl.send(tl::Direction::global_east, travelling);
    travelling = tl.recv(tl::Direction::global_west, shape, args.dtype);
    sum = sum + travelling;
  }
  for (int i = 0; args.rank == 1 && i < 2; ++i) tl.send(tl::Direction::global_east, own);
  tl.store(args.tensor, sum);
}

const bool kSendsTooMuch =
    ccl::register_algorithm({.name = "sends_too_much", .kernel = sends_too_much});

const TensorOptions kOnePe{.dp = DPPolicy::on_one_pe()};

// Launches a kernel of the user's on one SIP that leaves a message for the next.
void leave_a_message(RuntimeContext& torch) {
  Tensor x = torch.ones({6}, kOnePe);
  torch.launch(
      "send_and_forget",
      [](tl::Context& tl, tl::Pointer p) {
        tl.send(tl::Direction::global_east, tl.load(p, {1}, DType::f32));
      },
      x);
}

}  // namespace

TEST_CASE("a collective that leaves messages is an error once all ranks have finished it",
          "[ccl][errors][residue]") {
  REQUIRE(kSendsTooMuch);
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 3, 1),
                       {.ccl = ccl::Config::parse("defaults: {algorithm: sends_too_much}")});
  torch.distributed.init_process_group("ahbm");
  for (int i = 0; i < 2; ++i) {  // the queues are empty again
    int finished = 0;
    const std::string text = error_of<SpawnException>([&] {
      run_on_devices(torch, 3, [&](int) {
        Tensor x = torch.ones({6}, kOnePe);
        torch.distributed.all_reduce(x);
        torch.ahbm.synchronize();
        ++finished;
      });
    });
    CHECK(finished == 2);
    CHECK_THAT(text,
               Catch::Contains("[KB-Q003] kernel 'sends_too_much' has ended and left 2 messages "
                               "that nobody received; every tl.send needs its tl.recv\n") &&
                   Catch::Contains("2 messages (48 B, sent at ") &&
                   Catch::Contains(" in ipcq sip1.cube0.pe0 global_east -> sip2.cube0.pe0 "
                                   "global_west"));
  }
  torch.distributed.destroy_process_group();
}

TEST_CASE("messages that kernels of the user's have left between SIPs are told when the group ends",
          "[ccl][errors][residue]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 3, 1));
  torch.distributed.init_process_group("ahbm");
  leave_a_message(torch);
  leave_a_message(torch);
  CHECK_THAT(
      error_of<DeviceError>([&] { torch.distributed.destroy_process_group(); }),
      Catch::StartsWith("[KB-Q003] the process group has ended and left 2 messages that "
                        "nobody received; every tl.send needs its tl.recv\n"
                        "  2 messages (8 B, sent at ") &&
          Catch::EndsWith(" in ipcq sip0.cube0.pe0 global_east -> sip1.cube0.pe0 global_west"));
  CHECK_FALSE(torch.distributed.is_initialized());
  torch.distributed.init_process_group("ahbm");  // with new queues
  torch.distributed.destroy_process_group();
}

}  // namespace kernbench::test::queue_residue_test
