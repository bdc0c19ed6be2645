// Text for people, on stdout or stderr.

#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace kernbench::benches {

class Console {
 public:
  // Colour only on a terminal, and only if NO_COLOR is not set (no-color.org).
  explicit Console(int descriptor);
  // Prints nothing.
  static Console silent();

  // `text` goes before what is printed next, or open().
  void begin_with(std::string text) { opening_ = std::move(text); }
  void open() { print({}); }

  // Writes at once.  A failure is kept for finish(), and silences what follows.
  void print(std::string_view text);

  // `text` in red where there is colour: for what went wrong.
  std::string alarming(std::string_view text) const;
  // `text` in grey where there is colour: for what may be skipped.
  std::string faint(std::string_view text) const;

  // Throws IoError KB-I011 if something could not be written.  A reader who has left (`| head`) is
  // no error.
  void finish() const;

 private:
  std::string coloured(std::string_view code, std::string_view text) const;

  int descriptor_;
  bool colour_;
  std::string opening_;  // that is yet to be printed
  int failure_ = 0;      // errno of the first write that failed
};

// All of `text`; returns 0 or the errno of the write that failed.
int write_all(int descriptor, std::string_view text);

}  // namespace kernbench::benches
