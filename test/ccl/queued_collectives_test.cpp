// Collectives on streams: order, overlap and errors (ADR-0190).

#include <catch2/catch.hpp>
#include <map>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::queued_collectives_test {
namespace {

using Floats = std::vector<float>;

void add_one(tl::Context& tl, tl::Pointer x) {
  tl.store(x, tl.load(x, {4}, x.dtype()) + 1.0);
}
void beyond(tl::Context& tl, tl::Pointer x) {
  tl.load(x, {5}, x.dtype());
}
// Takes n adds of 4 elements.
void works(tl::Context& tl, tl::Pointer x, std::int64_t n) {
  tl::Tensor value = tl.load(x, {4}, x.dtype());
  for (std::int64_t i = 0; i < n; ++i) value = value + 0.0;
  tl.store(x, value);
}

// Runs a worker on 4 ranks, each on its device, and returns when it was over.
template <class Worker>
Time run(bool blocking, Worker worker) {
  Topology topology = round_topology(SipTopology::ring_1d, 4, 1, 2, 1);
  topology.pe.math_lanes = 1;
  RuntimeContext torch(topology, {.launch_blocking = blocking});
  run_on_devices(torch, 4, [&](int rank) {
    torch.distributed.init_process_group("ahbm");
    worker(torch, rank);
  });
  return torch.engine().now();
}

const TensorOptions kOnOnePe{.dp = DPPolicy::on_one_pe()};

// The root of a broadcast is done before the others.  Else autograd would copy a gradient.
TEST_CASE("a rank whose part is done has its tensor to itself", "[ccl][stream]") {
  std::map<int, Time> ended;
  run(true, [&](RuntimeContext& torch, int rank) {
    const Tensor x = torch.full({4}, rank, kOnOnePe);
    const auto work = torch.distributed.broadcast(x, {.src = 0, .async_op = true});
    work.wait();
    ended[rank] = torch.engine().now();
    CHECK(x.storage().use_count() == 2);  // and the Work's
    CHECK(x.at({0}) == 0);
  });
  CHECK(ended[0] < ended[2]);
}

TEST_CASE("a collective follows what was launched before, and the stream follows it",
          "[ccl][stream]") {
  std::map<bool, Time> ended;
  for (const bool blocking : {true, false}) {
    ended[blocking] = run(blocking, [&](RuntimeContext& torch, int rank) {
      const Tensor x = torch.full({4}, rank, kOnOnePe);
      const Time begin = torch.engine().now();
      torch.launch("add_one", add_one, x);
      torch.distributed.all_reduce(x);
      torch.launch("add_one", add_one, x);
      if (!blocking) CHECK(torch.engine().now() == begin);
      CHECK(x.to_vector() == Floats(4, 0 + 1 + 2 + 3 + 4 + 1));
    });
  }
  CHECK(ended[false] < ended[true]);
}

TEST_CASE("wait() of a Work orders the stream and not the host", "[ccl][stream]") {
  run(false, [](RuntimeContext& torch, int rank) {
    const Tensor x = torch.full({4}, rank, kOnOnePe);
    const Tensor y = torch.full({4}, 1, kOnOnePe);
    const Time begin = torch.engine().now();
    const distributed::Work work = torch.distributed.all_reduce(x, {}, {.async_op = true});
    torch.launch("add_one", add_one, y);
    CHECK_THAT(error_of<CollectiveError>([&] { torch.launch("add_one", add_one, x); }),
               Says("KB-G003", "all_reduce"));
    CHECK(work.wait());
    torch.launch("add_one", add_one, x);
    CHECK(torch.engine().now() == begin);
    CHECK_FALSE(work.is_completed());
    CHECK(y.to_vector() == Floats(4, 2));
    CHECK(x.to_vector() == Floats(4, 0 + 1 + 2 + 3 + 1));
    CHECK(work.is_completed());
  });
}

TEST_CASE("a collective overlaps the kernels that are launched beside it", "[ccl][stream]") {
  const auto time_of = [](bool has_kernel, bool has_collective) {
    return run(false, [&](RuntimeContext& torch, int) {
      const Tensor x = torch.ones({4096}, kOnOnePe);
      const Tensor y = torch.ones({4}, kOnOnePe);
      distributed::Work work;
      if (has_collective) work = torch.distributed.all_reduce(x, {}, {.async_op = true});
      if (has_kernel) torch.launch("works", works, y, 2'000);
      if (work) work.wait();
    });
  };
  const Time both = time_of(true, true);
  CHECK(both < time_of(true, false) + time_of(false, true));
  CHECK(both >= std::max(time_of(true, false), time_of(false, true)));
}

TEST_CASE("synchronize() waits for collectives; barrier, send and recv block the host",
          "[ccl][stream]") {
  run(false, [](RuntimeContext& torch, int rank) {
    const Tensor x = torch.full({4}, rank, kOnOnePe);
    const distributed::Work work = torch.distributed.all_reduce(x, {}, {.async_op = true});
    torch.ahbm.synchronize();
    CHECK(work.is_completed());
    work.wait();
    torch.launch("add_one", add_one, x);
    torch.distributed.barrier();
    CHECK(torch.ahbm.current_stream().query());
    torch.launch("add_one", add_one, x);
    if (rank == 0) torch.distributed.send(x, 1);
    const Tensor y = torch.zeros({4}, kOnOnePe);
    if (rank == 1) {
      CHECK(torch.distributed.recv(y, 0) == 0);
      CHECK(y.to_vector() == Floats(4, 6 + 2));
    }
  });
}

TEST_CASE("a sum over a device's own PEs blocks its rank, which reads how the tensor lies",
          "[ccl][stream]") {
  run(false, [](RuntimeContext& torch, int) {
    const Tensor x = torch.full({4}, 1, {.dp = {.cube = Shard::partial, .num_pes = 1}});
    torch.distributed.all_reduce(x);
    CHECK(x.dp().cube == Shard::replicate);
    CHECK(x.to_vector() == Floats(4, 4));
  });
}

TEST_CASE("an async sum over a device's own PEs holds up only who waits for it", "[ccl][stream]") {
  run(false, [](RuntimeContext& torch, int) {
    const Tensor x = torch.full({4}, 1, {.dp = {.cube = Shard::partial, .num_pes = 1}});
    const Tensor y = torch.ones({4}, kOnOnePe);
    torch.ahbm.synchronize();
    const Time begin = torch.engine().now();
    torch.launch("works", works, y, 2'000);
    const distributed::Work work = torch.distributed.all_reduce(x, {}, {.async_op = true});
    torch.launch("add_one", add_one, y);
    CHECK(torch.engine().now() == begin);
    CHECK(work.wait());
    CHECK(torch.engine().now() > begin);
    CHECK(x.dp().cube == Shard::replicate);
    CHECK(x.to_vector() == Floats(4, 4));
    CHECK(y.to_vector() == Floats(4, 2));
  });
}

TEST_CASE("a kernel that fails before a collective is the error of all", "[ccl][stream]") {
  const auto spawn = [] {
    run(false, [](RuntimeContext& torch, int rank) {
      const Tensor x = torch.full({4}, rank, kOnOnePe);
      if (rank == 2) torch.launch("beyond", beyond, x);
      torch.distributed.all_reduce(x);
      x.to_vector();
    });
  };
  CHECK_THAT(error_of<SpawnException>(spawn), Says("KB-R001", "rank 2", "KB-M020", "'beyond'"));
}

TEST_CASE("a collective races with another stream as a kernel does", "[ccl][stream]") {
  const auto spawn = [](bool ordered) {
    return [ordered] {
      run(false, [ordered](RuntimeContext& torch, int rank) {
        const Tensor x = torch.full({4}, rank, kOnOnePe);
        const ahbm::Stream s = torch.ahbm.Stream();
        torch.distributed.all_reduce(x);
        if (ordered) s.wait_stream(torch.ahbm.current_stream());
        const auto guard = torch.ahbm.stream(s);
        torch.launch("add_one", add_one, x);
        const Floats values = x.to_vector();
        CHECK(values == Floats(4, 7));
      });
    };
  };
  CHECK(error_of<Error>(spawn(true)) == "no error");
  CHECK_THAT(error_of<Error>(spawn(false)), Says("KB-M031", "all_reduce", "'add_one'"));
}

TEST_CASE("a hundred collectives of a group may be queued at once", "[ccl][stream]") {
  run(false, [](RuntimeContext& torch, int rank) {
    const Tensor x = torch.full({4}, rank, kOnOnePe);
    torch.distributed.barrier();
    std::vector<distributed::Work> works;
    for (int i = 0; i < 100; ++i) {
      works.push_back(torch.distributed.all_reduce(x, ReduceOp::max, {.async_op = true}));
    }
    for (const distributed::Work& work : works) CHECK(!work.is_completed());
    for (const distributed::Work& work : works) work.wait();
    CHECK(x.to_vector() == Floats(4, 3));
  });
}

TEST_CASE("messages and objects follow what was launched before", "[ccl][stream]") {
  run(false, [](RuntimeContext& torch, int rank) {
    auto& dist = torch.distributed;
    const Tensor x = torch.full({4}, rank, kOnOnePe);
    const Tensor y = torch.zeros({4}, kOnOnePe);
    torch.launch("works", works, x, std::int64_t{100});
    const Time issued = torch.engine().now();
    std::vector<int> all;
    dist.all_gather_object(all, rank);
    CHECK(torch.engine().now() > issued);
    CHECK(torch.ahbm.current_stream().query());
    torch.launch("add_one", add_one, x);
    const int next = (rank + 1) % 4;
    const int previous = (rank + 3) % 4;
    for (const auto& work :
         dist.batch_isend_irecv({{distributed::PointToPoint::isend, x, next},
                                 {distributed::PointToPoint::irecv, y, previous}})) {
      work.wait();
    }
    CHECK(y.to_vector() == Floats(4, static_cast<float>(previous + 1)));
  });
}

// True if the call waits for what its rank has launched before.
bool waits(const std::string& backend,
           const std::function<void(RuntimeContext&, const Tensor&, int)>& call) {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 2, 1, 2, 1));
  torch.distributed.init_process_group(backend);
  bool has_waited = true;
  run_on_devices(torch, 2, [&](int rank) {
    const Tensor x = torch.full({4}, rank, kOnOnePe);
    const Tensor y = torch.full({4}, rank, kOnOnePe);
    torch.launch("works", works, x, std::int64_t{100});
    call(torch, y, rank);
    has_waited = has_waited && simulation_of(torch).results().size() >= 2;
  });
  return has_waited;
}

TEST_CASE("what blocks the host does so after its stream: barriers, messages, all of local",
          "[ccl][stream]") {
  const auto all_reduce = [](RuntimeContext& torch, const Tensor& x, int) {
    torch.distributed.all_reduce(x);
  };
  const auto message = [](RuntimeContext& torch, const Tensor& x, int rank) {
    rank == 0 ? torch.distributed.send(x, 1) : static_cast<void>(torch.distributed.recv(x, 0));
  };
  const auto barrier = [](RuntimeContext& torch, const Tensor&, int) {
    torch.distributed.barrier();
  };
  const auto monitored = [](RuntimeContext& torch, const Tensor&, int) {
    torch.distributed.monitored_barrier();
  };
  for (const std::string backend : {"local", "ahbm"}) {
    CAPTURE(backend);
    CHECK(waits(backend, message));
    CHECK(waits(backend, barrier));
    CHECK(waits(backend, monitored));
    CHECK(waits(backend, all_reduce) == (backend == "local"));
  }
}

TEST_CASE("of 256 ranks, one whose kernel fails ends the wait of all others", "[ccl][stream]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 256, 1));
  torch.distributed.init_process_group("ahbm");
  const auto spawn = [&](bool fails) {
    run_on_devices(torch, 256, [&](int rank) {
      const Tensor x = torch.full({4}, rank, kOnOnePe);
      torch.launch("kernel", fails && rank == 77 ? beyond : add_one, x);
      torch.distributed.broadcast(x, 255);
      const Floats values = x.to_vector();
      CHECK(values == Floats(4, 256));
    });
  };
  CHECK_THAT(error_of<SpawnException>([&] { spawn(true); }),
             Says("KB-R001", "Process 77", "KB-M020", "launched as kernel 'kernel' at"));
  CHECK_NOTHROW(spawn(false));
}

}  // namespace
}  // namespace kernbench::test::queued_collectives_test
