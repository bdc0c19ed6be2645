#include "benches/bench/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

bool wants_colour(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && isatty(descriptor) != 0;
}

}  // namespace

int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

Console::Console(int descriptor) : descriptor_(descriptor), colour_(wants_colour(descriptor)) {}

// It behaves like a console whose reader has closed the pipe.
Console Console::silent() {
  Console console(-1);
  console.failure_ = EPIPE;
  return console;
}

void Console::print(std::string_view text) {
  const std::string opening = std::exchange(opening_, {});
  if (failure_ == 0) failure_ = write_all(descriptor_, opening);
  if (failure_ == 0) failure_ = write_all(descriptor_, text);
}

void Console::print_behind_opening(std::string_view text) {
  if (opening_.empty()) return print(text);
  opening_ += text;
}

std::string Console::coloured(std::string_view code, std::string_view text) const {
  return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string Console::alarming(std::string_view text) const {
  return coloured("1;31", text);
}

std::string Console::faint(std::string_view text) const {
  return coloured("2", text);
}

void Console::finish() const {
  if (failure_ == 0 || failure_ == EPIPE) return;
  throw IoError("KB-I011", "write to {} failed: {}",
                descriptor_ == STDOUT_FILENO ? "stdout" : "stderr", std::strerror(failure_));
}

}  // namespace kernbench::benches
