// Counts what the program allocates.  To be included by one file of a program, since it replaces
// the operators; AddressSanitizer has its own, so its build must leave it out.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace kernbench::test {

inline std::size_t allocation_count = 0;

}  // namespace kernbench::test

void* operator new(std::size_t size) {
  ++kernbench::test::allocation_count;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
