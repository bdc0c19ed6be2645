// Runs a kernel on PEs, on one fiber per PE, which starts when the launch has reached that PE.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/launch_name.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tl/access_watch.h"
#include "runtime/tl/store_guard.h"
#include "runtime/tl/tl.h"

namespace kernbench::runtime {

struct LaunchRequest {
  std::string name;                  // name of the kernel
  std::vector<sim::PeLocation> pes;  // ordered by SIP, cube, PE; not empty
  std::function<void(tl::Context&)> body;
  std::vector<Tensor> uses;     // kept alive, and host reads of them wait, until the launch is done
  std::uint64_t operation = 0;  // KernelResult::operation
  // A collective's messages are its own: no other operation receives them.  It runs beside the
  // user's kernels.
  bool is_collective = false;
  std::uint64_t write = 0;           // Simulation::next_write(); 0: it takes one when it runs
  tl::StoreGuard guard = {};         // what the kernels must not write
  tl::AccessWatch* watch = nullptr;  // sees what the kernels touch; outlives the launch
  std::string where = {};            // the line that launches it: "ddp.cpp:41"; empty: not known
  std::optional<Time> issued = {};   // when the host issued it; nullopt: when it runs
  std::optional<std::size_t> scope = {};  // the scope of an issued one (RunSpan::scope)
  std::string module = {};                // its module, likewise (RunSpan::module)
  std::string what = {};  // of a queued one, for streams and errors: "kernel 'add' at ddp.cpp:41"
  // What the kernels write, until a queued one is issued; null: whichever of `uses`.
  const std::vector<Tensor>* results = nullptr;
  bool has_end = false;  // as HolderOptions::has_end
};

enum class When : std::uint8_t {
  now,            // the caller waits for its end
  queued,         // on the caller's current stream of its device; the caller goes on
  after_streams,  // when the caller's current streams of its devices are done; the caller waits
};

// Says if a kernel's body owns what it refers to, so that it may outlive the call that launches it.
enum class Body : std::uint8_t { borrows, owns };

struct HolderOptions {
  Body lifetime = Body::borrows;
  // The tensors that the kernel writes; null: whichever of those that it uses.
  const std::vector<Tensor>* results = nullptr;
  // It is one of this library's, which end: its commands are not limited.
  bool has_end = false;
};

// Launches a kernel.  Who waits does so until the host knows that every PE has finished; on a fiber
// that acts for a device, until the IO_CPU knows.  An exception of a kernel is thrown here, or
// where the caller of a queued launch waits for its stream, as DeviceError KB-K001 unless it is an
// Error already; the launch's other kernels are then unwound, and messages that they have sent each
// other are dropped.  Throws DeviceError KB-Q003 if the kernels have left messages in queues inside
// a SIP. Returns the number of messages that its kernels sent from SIP to SIP, minus those of the
// same operation that they received: over all launches of a collective the sum is 0, unless
// messages are left.  It is 0 of a queued launch.
std::int64_t launch(Simulation& simulation, LaunchRequest request, When when = When::now);

// Launches a user's kernel on every PE that holds an element of `first`.  If launches are queued
// (ADR-0190), it returns when the launch is issued to the caller's current stream of the device; a
// kernel that borrows, or runs on several devices, waits for that stream, and runs while the caller
// waits. Throws CollectiveError KB-R012 inside a kernel, KB-G003 if an operation under way will
// write one of `uses`, or reads one that the kernel stores into (runtime/tensor/data_under_way.h).
// REQUIRES: `first` and `uses` are on a device of one context
void launch(const LaunchName& launch, const Tensor& first, std::vector<Tensor> uses,
            std::function<void(tl::Context&)> body, const HolderOptions& options = {});

// Returns a pointer to a PE's shard of a tensor, for kernels whose launch has it among its `uses`;
// null if the PE holds none.  Other kernels use RuntimeContext::pointer_to().
tl::Pointer shard_pointer(const Tensor& tensor, const sim::PeLocation& pe);

}  // namespace kernbench::runtime
