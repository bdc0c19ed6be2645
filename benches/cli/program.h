// The command line `kernbench ...`, for the program itself and for a user's own benches.

#pragma once

namespace kernbench::benches {

// Registers all benches that the program `kernbench` has, for a program that has algorithms or
// benches of its own beside them:
//
//   int main(int argc, char** argv) {
//     kernbench::benches::register_shipped_benches();
//     return kernbench::benches::main(argc, argv);
//   }
//
// Throws UsageError KB-U006 if one is registered already.
void register_shipped_benches();

// Runs the command that the arguments ask for, with all registered benches, and returns the exit
// code (ADR-0104).  It reports errors on stderr.
int main(int argc, const char* const* argv) noexcept;

}  // namespace kernbench::benches
