// std::chrono::duration alone.
//
// <chrono> also has calendars, which need streams and locales: a file that includes it compiles
// half as long again as one that includes <string>.  libstdc++ keeps what durations need in a
// header of its own.

#pragma once

#if __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // IWYU pragma: export
#else
#include <chrono>  // IWYU pragma: export
#endif
