// The trace of a run for ui.perfetto.dev, in the Chrome trace event format.
//
// A process is a rank.  Its tracks are its program (scopes, and waits inside of them, with marks),
// the kernels on its device, and its collectives and messages by group: what overlaps lies on
// tracks of its own ("kernels #2").  Spans have their line, bytes, peer, group and sequence number
// as arguments; a collective of a bucket of gradients has the bucket's name, and its own as an
// argument; an arrow joins a send to its receive.  At level units the SIPs' units follow as
// sim::TraceRecorder has them.

#pragma once

#include <string>

#include "runtime/profiler/profile.h"

namespace kernbench::runtime {

class Simulation;

// The parts that have been recorded.  A part is missing if the run did not record it
// (RuntimeOptions::profile, RuntimeOptions::trace).
std::string trace_json(const Simulation& simulation, TraceLevel level);

}  // namespace kernbench::runtime
