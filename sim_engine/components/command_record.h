// Records a command that has ended, in the op log and in a trace.

#pragma once

#include "sim_engine/components/command.h"
#include "sim_engine/trace/command_log.h"
#include "sim_engine/trace/trace_recorder.h"

namespace kernbench::sim {

// The op log's record of a command that ended at `now`.  `unit` is the PE's number.
OpRecord make_record(const Command& command, std::uint32_t unit, Time now);

// Adds the command as a span, on the track for commands of its kind of the PE at `location`.
void trace(TraceRecorder& recorder, const Command& command, const OpRecord& op,
           const PeLocation& location);

}  // namespace kernbench::sim
