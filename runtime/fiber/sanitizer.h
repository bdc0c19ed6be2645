// Informs AddressSanitizer or ThreadSanitizer about stack switches.  It costs nothing in other
// builds.
//
// Without it, an exception deep in a fiber causes a false "stack-buffer-underflow", and
// ThreadSanitizer attributes a fiber's calls to whoever resumed it.

#pragma once

#include <cstddef>

#if defined(KERNBENCH_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(KERNBENCH_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace kernbench::runtime {

// Clears the poison that frames of a finished fiber left on its stack.
inline void unpoison([[maybe_unused]] void* bottom, [[maybe_unused]] std::size_t size) {
#if defined(KERNBENCH_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(bottom, size);
#endif
}

// Tells the leak checker that memory to which only a leaked stack refers is leaked on purpose.
inline void keep_reachable([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t size) {
#if defined(KERNBENCH_ASAN)
  __lsan_register_root_region(bottom, size);
#endif
}

// One fiber's stack as the sanitizer sees it.  The main stack calls entering() before and left()
// after a switch; the fiber calls entered() first of all, leaving() before and entered() after it
// gives control back, and leaving_for_good() last of all.
class StackAnnotation {
 public:
#if defined(KERNBENCH_ASAN)
  void set_bounds(void* bottom, std::size_t size) {
    *this = {};
    bottom_ = bottom;
    size_ = size;
  }
  void entering() {
    __sanitizer_start_switch_fiber(&main_fake_stack_, bottom_, size_);
  }
  void entered() {
    __sanitizer_finish_switch_fiber(fake_stack_, &main_bottom_, &main_size_);
  }
  void leaving() {
    __sanitizer_start_switch_fiber(&fake_stack_, main_bottom_, main_size_);
  }
  void leaving_for_good() {
    __sanitizer_start_switch_fiber(nullptr, main_bottom_, main_size_);
  }
  void left() {
    __sanitizer_finish_switch_fiber(main_fake_stack_, nullptr, nullptr);
  }

 private:
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
  void* fake_stack_ = nullptr;
  const void* main_bottom_ = nullptr;
  std::size_t main_size_ = 0;
  void* main_fake_stack_ = nullptr;
#elif defined(KERNBENCH_TSAN)
  // These may be called only from code that is not instrumented (fiber_switch.cpp, see
  // CMakeLists.txt): a function entered on one side and left on the other would unbalance both.
  StackAnnotation() = default;
  ~StackAnnotation() {
    if (fiber_ != nullptr) __tsan_destroy_fiber(fiber_);
  }
  StackAnnotation(const StackAnnotation&) = delete;
  StackAnnotation& operator=(const StackAnnotation&) = delete;

  void set_bounds(void*, std::size_t) {
    if (fiber_ == nullptr) fiber_ = __tsan_create_fiber(0);
  }
  void entering() {
    main_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, 0);
  }
  void entered() {}
  void leaving() {
    __tsan_switch_to_fiber(main_, 0);
  }
  void leaving_for_good() {
    leaving();
  }
  void left() {}

 private:
  void* fiber_ = nullptr;
  void* main_ = nullptr;
#else
  void set_bounds(void*, std::size_t) {}
  void entering() {}
  void entered() {}
  void leaving() {}
  void leaving_for_good() {}
  void left() {}
#endif
};

}  // namespace kernbench::runtime
