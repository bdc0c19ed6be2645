// The texts of exceptions, of kernbench and of other libraries, for messages.

#pragma once

#include <exception>
#include <string>
#include <system_error>

namespace kernbench {

// The exception's own text, made visible line by line.
std::string to_text(const std::exception& exception);

// The C++ name of the type of the exception being handled.  REQUIRES: called in a handler
std::string type_of_current_exception();

// The C++ name of a type, from std::type_info::name().
std::string demangle(const char* name);

// True if the host has run out of memory, threads, descriptors or the like.
bool is_host_limit(const std::error_code& code);

}  // namespace kernbench
