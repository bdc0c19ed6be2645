// The algorithms by which the collectives of a run have run.

#pragma once

#include <cstdint>
#include <string_view>

namespace kernbench::runtime {

struct AlgorithmUse {
  std::string_view collective;  // "all_reduce", "send", ...; a literal, as the next
  std::string_view algorithm;
  bool is_configured = false;  // it is what the backend's settings (ccl.yaml) ask for
  std::int64_t calls = 0;      // of all ranks
};

}  // namespace kernbench::runtime
