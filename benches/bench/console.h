// Text for people, on stdout or stderr.

#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace kernbench::benches {

class Console {
 public:
  // It uses colour only on a terminal, and only if NO_COLOR is not set (no-color.org).
  explicit Console(int descriptor);
  // A console that prints nothing.
  static Console silent();

  // `text` is printed before the next output, or by open().
  void begin_with(std::string text) { opening_ = std::move(text); }
  void open() { print({}); }

  // Writes at once.  A failure is kept for finish(), and silences what follows.
  void print(std::string_view text);
  // Like print(), but while the opening waits, the text waits behind it.
  void print_behind_opening(std::string_view text);

  // `text` in red if colour is on: for failures.
  std::string alarming(std::string_view text) const;
  // `text` in grey if colour is on: for details that a reader may skip.
  std::string faint(std::string_view text) const;

  // Throws IoError KB-I011 if some output could not be written.  A closed pipe (`| head`) is no
  // error.
  void finish() const;

 private:
  std::string coloured(std::string_view code, std::string_view text) const;

  int descriptor_;
  bool colour_;
  std::string opening_;  // text that is yet to be printed
  int failure_ = 0;      // errno of the first write that failed
};

// Writes all of `text`; returns 0 or the errno of the write that failed.
int write_all(int descriptor, std::string_view text);

}  // namespace kernbench::benches
