// Which algorithms the collectives of a run have used.

#pragma once

#include <cstdint>
#include <string_view>

namespace kernbench::runtime {

struct AlgorithmUse {
  std::string_view collective;  // "all_reduce", "send", ...; a literal, as is `algorithm`
  std::string_view algorithm;
  bool is_configured = false;  // true if the backend's settings (ccl.yaml) ask for it
  std::int64_t calls = 0;      // summed over all ranks
};

}  // namespace kernbench::runtime
