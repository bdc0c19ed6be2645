// Finds messages that stay in queues after their senders have ended.

#pragma once

#include <optional>
#include <string_view>

#include "sim_engine/base/error.h"
#include "sim_engine/components/machine.h"
#include "sim_engine/components/operation.h"

namespace kernbench::runtime {

enum class QueueScope { in_one_sip, all };

// Drops messages that nobody has received, those of `operation` or, without one, all.  Returns
// DeviceError KB-Q003 with the queues that they were in; nullopt if there were none.  `who` names
// the sender: "kernel 'x'".
// REQUIRES: its kernels have ended
std::optional<DeviceError> take_residue(sim::Machine& machine, QueueScope scope,
                                        const std::optional<sim::Operation>& operation,
                                        std::string_view who);

}  // namespace kernbench::runtime
