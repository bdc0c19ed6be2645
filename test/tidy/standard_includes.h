// Files that use a name of the standard library, and neither they nor what they include have its
// header. Precompiled headers hide that: with them each file has all the common ones.

#pragma once

#include "test/tidy/tidy.h"

namespace kernbench::tidy {

// Names of the standard library that have one header, and fmt's.  `lines` holds all files that the
// files include from the project.
Offences check_standard_includes(const Lines& lines);

}  // namespace kernbench::tidy
