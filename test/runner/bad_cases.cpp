// Cases of every bad ending, for runner_test.cpp.

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

TEST_CASE("passes before the crash") {
  CHECK(1 + 1 == 2);
}

TEST_CASE("crashes, with a comma and a [bracket]") {
  std::raise(SIGSEGV);
}

TEST_CASE("passes behind the crash") {
  CHECK(1 + 1 == 2);
}

TEST_CASE("fails in a section") {
  SECTION("that passes") {
    CHECK(1 + 1 == 2);
  }
  SECTION("that does not") {
    CHECK(1 + 1 == 3);
  }
}

TEST_CASE("ends the process") {
  std::_Exit(0);
}

TEST_CASE("never ends") {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

TEST_CASE("has a process of its own", "[process]") {
  CHECK(1 + 1 == 2);
}

TEST_CASE("fails twice in a process of its own", "[process]") {
  CHECK(1 + 1 == 3);
  CHECK(1 + 1 == 4);
}

TEST_CASE("is hidden", "[.]") {
  CHECK(1 + 1 == 3);
}
