// std::shared_ptr and std::unique_ptr alone.
//
// <memory> also has algorithms on uninitialized memory, ranges of them and parallel ones, a sixth
// of what it costs.  libstdc++ keeps the pointers in headers of their own.

#pragma once

#if __has_include(<bits/shared_ptr.h>)
#include <bits/shared_ptr.h>  // IWYU pragma: export
#include <bits/unique_ptr.h>  // IWYU pragma: export
#else
#include <memory>  // IWYU pragma: export
#endif
