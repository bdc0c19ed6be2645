#pragma once

namespace kernbench::ccl {

// Makes init_process_group("ahbm") work.
bool register_ahbm_backend();

// Registers "ahbm" and "local" as backends, and sees to it that an Error which nobody catches ends
// the program with its exit code.  The umbrella header calls it.
bool prepare_program();

}  // namespace kernbench::ccl
