#include "benches/bench/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim_engine/base/error.h"
#include "test/benches/terminal.h"

namespace kernbench::benches::console_test {

TEST_CASE("colour is for terminals, unless NO_COLOR is set", "[console]") {
  const test::Terminal terminal;
  if (!terminal.exists()) return;
  ::unsetenv("NO_COLOR");
  CHECK(Console(terminal.descriptor()).alarming("x") == "\x1b[1;31mx\x1b[0m");
  ::setenv("NO_COLOR", "", 1);  // empty counts as not set
  CHECK(Console(terminal.descriptor()).faint("x") == "\x1b[2mx\x1b[0m");
  ::setenv("NO_COLOR", "1", 1);
  CHECK(Console(terminal.descriptor()).alarming("x") == "x");
  ::unsetenv("NO_COLOR");
  const int null = ::open("/dev/null", O_WRONLY);
  CHECK(Console(null).alarming("x") == "x");
  ::close(null);
}

TEST_CASE("a write that fails is told at the end", "[console][errors]") {
  const int full = ::open("/dev/full", O_WRONLY);
  Console console(full);
  CHECK_NOTHROW(console.finish());
  console.print("text");
  CHECK_THROWS_AS(console.finish(), IoError);
  ::close(full);
}

}  // namespace kernbench::benches::console_test
