#include "benches/errors/error_page.h"

#include <fmt/format.h>

#include <string_view>

#include "sim_engine/base/line_width.h"

namespace kernbench::benches::errors {

namespace {

constexpr std::string_view kPageHead =
    "# Error codes\n"
    "\n"
    "<!-- Written by `kernbench errors --markdown error-codes.md`; not edited by hand. -->\n"
    "\n"
    "The text of an error or a warning begins with its code, as in `[KB-C002]`, and says what was "
    "wrong where. This page says\n"
    "what all errors of a code have in common, and how to mend them; `kernbench errors KB-C002` "
    "shows one of them. What exit\n"
    "codes mean is in [ADR-0104](adr/ADR-0104-errors-exit-codes-and-the-flight-recorder.md).\n";

bool is_warning(const ErrorCode& code) {
  return code.exit_code == ExitCode::ok;
}

std::string describe_exit(const ErrorCode& code) {
  if (!code.exits.empty()) return std::string(code.exits);
  return is_warning(code) ? "a warning" : fmt::format("{}", static_cast<int>(code.exit_code));
}

std::string list_one(const ErrorCode& code) {
  const std::string exit =
      is_warning(code) ? "-" : fmt::format("{}", static_cast<int>(code.exit_code));
  return wrapped(fmt::format("  {}  {:>3}  {}", code.code, exit, code.meaning),
                 std::string(16, ' ')) +
         '\n';
}

}  // namespace

std::string list_error_codes() {
  std::string text = "codes with exit codes; `kernbench errors CODE` says what to do\n";
  for (const ErrorFamily& family : error_families()) {
    text += fmt::format("\n{}: {}\n", family.letter, family.subject);
    for (const ErrorCode& code : family.codes) text += list_one(code);
  }
  return text;
}

std::string describe(const ErrorCode& code) {
  const std::string head(2, ' ');
  return fmt::format("{}: {}{}\n{}\n{}\n", code.code, is_warning(code) ? "" : "exit code ",
                     describe_exit(code), wrapped(fmt::format("  {}", code.meaning), head),
                     wrapped(fmt::format("  {}", code.cure), head));
}

std::string write_error_page() {
  std::string page(kPageHead);
  for (const ErrorFamily& family : error_families()) {
    page += fmt::format("\n## {}: {}\n\n| code | exit code | meaning | cure |\n|---|---|---|---|\n",
                        family.letter, family.subject);
    for (const ErrorCode& code : family.codes) {
      page += fmt::format("| {} | {} | {} | {} |\n", code.code, describe_exit(code), code.meaning,
                          code.cure);
    }
  }
  return page;
}

}  // namespace kernbench::benches::errors
