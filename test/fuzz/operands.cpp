// Values of options and of the environment: a size, a place, a number, topics of the log.

#include <fmt/format.h>

#include <limits>
#include <string>

#include "benches/bench/inputs.h"
#include "runtime/guards/log.h"
#include "sim_engine/config/yaml_scalar.h"
#include "sim_engine/topology/location.h"
#include "test/fuzz/parser.h"

namespace kernbench::fuzz::operands {

namespace {

[[noreturn]] void another(std::string_view what, std::string_view printed) {
  throw Finding(fmt::format("printed and read again {} is another: {}", what, printed));
}

void check_size(std::string_view input) {
  const Bytes bytes = benches::parse_bytes("--bytes", input);
  const std::string printed = fmt::format("{} B", bytes);
  if (benches::parse_bytes("--bytes", printed) != bytes) another("a size", printed);
}

void check_place(std::string_view input) {
  const auto place = sim::parse_pe_location(input);
  if (!place) return;
  const std::string printed = to_string(*place);
  if (sim::parse_pe_location(printed) != place) another("a place", printed);
}

void check_number(std::string_view input) {
  using Limits = std::numeric_limits<std::int64_t>;
  const ParsedScalar number = parse_integer(input, Limits::min(), Limits::max());
  if (!number.code.empty()) return;
  const std::string printed = fmt::format("{}", number.value);
  if (printed != input) another("a number", printed);
}

void check(std::string_view input) {
  check_place(input);
  check_number(input);
  try {
    check_size(input);
  } catch (const UsageError&) {
    // A text that is no size may be a list of topics; Log refuses it if it is neither.
    const runtime::Log log(std::string(input).c_str());
  }
}

}  // namespace

Parser parser() {
  return {.name = "operands",
          .check = check,
          .refusal = ExitCode::usage,
          .words =
              "sip cube pe . .cube .pe sip0.cube0.pe0 distributed ccl fiber launch all , B KB "
              "MB GB TB KiB MiB GiB TiB"};
}

}  // namespace kernbench::fuzz::operands
