// Says if a sanitizer is built in: tests then repeat less what takes twenty times as long.

#pragma once

namespace kernbench::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace kernbench::test
