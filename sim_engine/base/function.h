// std::function, std::less and std::greater alone.
//
// <functional> also has searchers, for which it includes <unordered_map> and <algorithm>.
// libstdc++ keeps function in a header of its own.

#pragma once

#if __has_include(<bits/std_function.h>)
#include <bits/std_function.h>  // IWYU pragma: export
#else
#include <functional>  // IWYU pragma: export
#endif
