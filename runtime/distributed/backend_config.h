#pragma once

namespace kernbench::distributed {

// Settings of a backend, opaque to the runtime (RuntimeOptions::ccl).
class BackendConfig {
 public:
  virtual ~BackendConfig() = default;
};

}  // namespace kernbench::distributed
