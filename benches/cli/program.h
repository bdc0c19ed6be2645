// The command line `kernbench ...`, for the program itself and for a user's own benches.

#pragma once

namespace kernbench::benches {

// Runs the command that the arguments ask for, with all registered benches, and returns the exit
// code (ADR-0104).  It reports errors on stderr.
int main(int argc, const char* const* argv) noexcept;

}  // namespace kernbench::benches
