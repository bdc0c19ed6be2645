// Whether a sanitizer is built in: what takes twenty times as long then is done less often.

#pragma once

namespace kernbench::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace kernbench::test
