#pragma once

namespace kernbench::runtime {

// From now on an Error that nobody catches is printed and ends the process with its exit code,
// where std::terminate() would only abort; std::bad_alloc is treated likewise.  Other exceptions
// keep their meaning.  May be called any number of times; always returns true.
bool report_uncaught_errors();

}  // namespace kernbench::runtime
