// What is written down of a command that has ended.

#pragma once

#include "sim_engine/components/command.h"
#include "sim_engine/data/op_log.h"
#include "sim_engine/trace/trace_recorder.h"

namespace kernbench::sim {

// `unit` is the PE's number.
OpRecord record_of(const Command& command, std::uint32_t unit, Time now);

// As a span on a track of its kind, of the PE at `location`.
void trace(TraceRecorder& recorder, const Command& command, const OpRecord& op,
           const PeLocation& location);

}  // namespace kernbench::sim
