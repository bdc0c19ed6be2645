#include "ccl/algorithms/library.h"

namespace kernbench::ccl {

std::span<const Algorithm> library_algorithms() {
  return kLibrary;
}

}  // namespace kernbench::ccl
