// Does not compile if <kernbench/kernbench.h> reaches a header that costs users more than it gives
// them (ADR-0107).  Compiled without a precompiled header, and never run.

#include <kernbench/kernbench.h>

// The include guards of libstdc++ 12 and fmt 9: another library has other names for them, and then
// nothing is checked.
#if defined(FMT_FORMAT_H_)
#error "kernbench.h includes <fmt/format.h>; <fmt/core.h> is enough for declarations"
#endif
#if defined(_GLIBCXX_ALGORITHM) || defined(_GLIBCXX_DEQUE) || defined(_GLIBCXX_LIST)
#error "kernbench.h includes <algorithm>, <deque> or <list>; bodies that need them go into a .cpp"
#endif
#if defined(_GLIBCXX_VARIANT)
#error "kernbench.h includes <variant>; benches/bench/cell.h has what a row's cells are"
#endif
#if defined(_GLIBCXX_MUTEX) || defined(_GLIBCXX_ATOMIC) || defined(_GLIBCXX_THREAD)
#error "kernbench.h includes <mutex>, <atomic> or <thread>; what needs them is no user's"
#endif
#if defined(_GLIBCXX_RANDOM)
#error "kernbench.h includes <random>; a .cpp may"
#endif
