// The table of all codes in its parts, of which each is a file.

#pragma once

#include <span>

#include "benches/errors/error_codes.h"

namespace kernbench::benches::errors {

std::span<const ErrorFamily> families_a_to_d();
std::span<const ErrorFamily> families_f_to_m();
std::span<const ErrorFamily> families_n_to_t();
std::span<const ErrorFamily> families_u_to_y();

}  // namespace kernbench::benches::errors
