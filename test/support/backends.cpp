// Registers both backends when a test program starts, as the umbrella header does for a user's.

#include "ccl/backend/ahbm_registration.h"
#include "runtime/distributed/local_registration.h"

namespace kernbench::test {

[[maybe_unused]] static const bool kAreRegistered =
    ccl::register_ahbm_backend() && distributed::register_local_backend();

}  // namespace kernbench::test
