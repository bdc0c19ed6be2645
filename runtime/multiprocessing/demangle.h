#pragma once

#include <string>

namespace kernbench::multiprocessing {

// The C++ name of a type, from std::type_info::name().
std::string demangle(const char* name);

}  // namespace kernbench::multiprocessing
