#pragma once

namespace kernbench::ccl {

// Makes init_process_group("ahbm") work.  The umbrella header calls it.
bool register_ahbm_backend();

}  // namespace kernbench::ccl
