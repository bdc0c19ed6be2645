// kernbench_records check [ROOT]   one line "file: why" per offence; exit 1 if there is any
// kernbench_records index [ROOT]   writes adr/INDEX.md and adr-ko/INDEX.md

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>

#include "test/records/records.h"

namespace {

constexpr int kOk = 0;
constexpr int kOffences = 1;
constexpr int kUsage = 2;
constexpr int kCannotWrite = 4;

int check(const std::filesystem::path& root) {
  const auto offences = kernbench::records::check(root);
  for (const std::string& offence : offences) fmt::print("{}\n", offence);
  return offences.empty() ? kOk : kOffences;
}

int index(const std::filesystem::path& root) {
  try {
    kernbench::records::write_indexes(root);
    return kOk;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernbench_records: {}\n", error.what());
    return kCannotWrite;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  const std::filesystem::path root = argc > 2 ? argv[2] : ".";
  if (argc <= 3 && command == "check") return check(root);
  if (argc <= 3 && command == "index") return index(root);
  fmt::print(stderr, "usage: kernbench_records check|index [ROOT]\n");
  return kUsage;
}
