// The parsers that a user's bytes reach, and what must hold of each of them whatever the bytes are:
// they are accepted or refused with an Error, and what is accepted, printed and read again is the
// same object.

#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/error.h"

namespace kernbench::fuzz {

// A parser does something that it must not do.
class Finding : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Parser {
  std::string_view name;
  // Parses the input.  Lets the parser's Error through if it refuses the input.  Throws a Finding
  // if what it accepts is another object after printing and reading it.
  void (*check)(std::string_view input);
  ExitCode refusal = ExitCode::configuration;  // the exit code of every Error
  // Files that mutations start from, from the repository root; a folder stands for its files.
  std::vector<std::string_view> shipped = {};
  // Further words that mutations put in, separated by spaces.
  std::string_view words = {};
};

std::span<const Parser> parsers();
// Null if there is none of that name.
const Parser* find_parser(std::string_view name);

struct Verdict {
  enum class Kind { accepted, refused, finding };
  Kind kind = Kind::accepted;
  std::string text = {};  // of the error or the finding
};

// Runs the check, and looks at the error that it throws: it has the parser's exit code, and its
// text is UTF-8 that no terminal obeys.
Verdict verdict_of(const Parser& parser, std::string_view input);

// The input's lines.  A backslash before a line end makes it a part of the line, so that a word of
// a command line can have line ends.
std::vector<std::string> words_of(std::string_view input);

// Each in a file of its own.
namespace topology_yaml {
Parser parser();
}
namespace ccl_yaml {
Parser parser();
}
namespace settings {
Parser parser();
}
namespace command_line {
Parser parser();
}
namespace operands {
Parser parser();
}
namespace journal {
Parser parser();
}
namespace ranges {
Parser parser();
}

}  // namespace kernbench::fuzz
