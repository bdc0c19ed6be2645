#pragma once

namespace kernbench::distributed {

// Makes init_process_group("local") work.  The umbrella header calls it.
bool register_local_backend();

}  // namespace kernbench::distributed
