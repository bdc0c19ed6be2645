// Messages that are left in queues when what sent them is over.

#pragma once

#include <optional>
#include <string_view>

#include "sim_engine/base/error.h"
#include "sim_engine/components/machine.h"

namespace kernbench::runtime {

enum class QueueScope { in_one_sip, all };

// Drops the messages of `operation`, or, without one, all, that nobody has received, and returns
// DeviceError KB-Q003 with the queues that they were in; nullopt if there are none.  `who` has left
// them: "kernel 'x'".  REQUIRES: its kernels have ended
std::optional<DeviceError> take_residue(sim::Machine& machine, QueueScope scope,
                                        const std::optional<sim::Operation>& operation,
                                        std::string_view who);

}  // namespace kernbench::runtime
