// failure_cases NAME: runs the case of that name.  failure_cases list: names them all.

#include <fmt/format.h>

#include "test/failures/failure_case.h"

int main(int argc, char** argv) {
  using namespace kernbench::test;
  const std::string_view wanted = argc == 2 ? argv[1] : "";
  for (const auto& cases :
       {rank_cases(), collective_cases(), process_cases(), device_cases(), signal_cases()}) {
    for (const FailureCase& failure : cases) {
      if (wanted == "list") fmt::print("{}\n", failure.name);
      if (failure.name != wanted) continue;
      failure.run();
      return 0;
    }
  }
  if (wanted == "list") return 0;
  fmt::print(stderr, "there is no case '{}'\n", wanted);
  return 2;
}
