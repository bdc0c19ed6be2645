// A worker that spawn() cannot call: compiled by a test that counts the lines of what is said.

#include <string>

#include "runtime/multiprocessing/spawn.h"

void wrong(kernbench::multiprocessing::Multiprocessing& multiprocessing, std::string& name) {
#if defined(KERNBENCH_TEST_ARGUMENT)
  multiprocessing.spawn([](int, int) {}, std::forward_as_tuple(name), 2);
#elif defined(KERNBENCH_TEST_NO_RANK)
  multiprocessing.spawn([] {}, {}, 2);
#elif defined(KERNBENCH_TEST_RESULT)
  multiprocessing.spawn([](std::string rank) { return rank; }, std::tuple{}, 2);
#elif defined(KERNBENCH_TEST_OPTIONS)
  multiprocessing.spawn([](int) {}, std::tuple{name}, 2, {.join = false});
#elif defined(KERNBENCH_TEST_NO_TUPLE)
  multiprocessing.spawn([](int, std::string) {}, name, 2);
#else
  multiprocessing.spawn([](int, std::string) {}, std::tuple{name}, 2);
#endif
}
