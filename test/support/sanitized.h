// Says if a sanitizer is built in: tests then repeat less what takes twenty times as long.

#pragma once

namespace kernbench::test {

#if defined(KERNBENCH_ASAN) || defined(KERNBENCH_TSAN)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace kernbench::test
