// `kernbench errors`.

#include <unistd.h>

#include <string>

#include "benches/bench/console.h"
#include "benches/bench/output_file.h"
#include "benches/cli/commands.h"
#include "benches/errors/error_page.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::cli {

namespace {

std::string describe_codes(const ErrorsArguments& arguments) {
  if (arguments.codes.empty()) return errors::list_error_codes();
  std::string text;
  for (const std::string& word : arguments.codes) {
    if (!text.empty()) text += '\n';
    text += errors::describe(errors::find_error_code(word));
  }
  return text;
}

}  // namespace

int errors(const ErrorsArguments& arguments) {
  if (arguments.markdown.empty()) {
    Console console(STDOUT_FILENO);
    console.print(describe_codes(arguments));
    console.finish();
    return 0;
  }
  if (!arguments.codes.empty()) {
    throw UsageError("KB-U001", "errors: --markdown writes all codes; leave the others out");
  }
  OutputFile(arguments.markdown).commit(errors::write_error_page());
  return 0;
}

}  // namespace kernbench::benches::cli
