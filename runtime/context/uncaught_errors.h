#pragma once

namespace kernbench::runtime {

// From now on an Error that nobody catches is printed, and ends the process with its exit code,
// where std::terminate() would only abort; so does std::bad_alloc.  Other exceptions keep their
// meaning.  Any number of times.  Always true.
bool report_uncaught_errors();

}  // namespace kernbench::runtime
