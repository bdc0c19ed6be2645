// Codes of errors: `kernbench errors` knows those that the product has, with their exit codes.

#pragma once

#include "test/tidy/tidy.h"

namespace kernbench::tidy {

// Each code of the product is in the table (benches/errors/codes_*.cpp), once, and each code of the
// table is in the product.  Comments do not count.
Offences check_error_codes(const Lines& lines);

// Where a code is thrown by a class that has an exit code of its own, the table has the same one.
// The classes are those of the lines' sim_engine/base/error.h.
Offences check_exit_codes(const Lines& lines);

}  // namespace kernbench::tidy
