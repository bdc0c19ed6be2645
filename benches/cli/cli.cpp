#include "benches/cli/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <sstream>
#include <string_view>

#include "benches/bench/report.h"
#include "benches/bench/settings.h"
#include "benches/cli/options.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::cli {

namespace {

const CLI::App* deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string full_name(const CLI::App* app) {
  const CLI::App* parent = app->get_parent();
  return parent == nullptr ? app->get_name() : full_name(parent) + ' ' + app->get_name();
}

// "unknown option '--topolgy'; did you mean '--topology'?"
std::string describe_unknown(const CLI::App& app, const std::string& word) {
  const CLI::App* at = deepest(&app);
  std::vector<std::string> names;
  for (const CLI::Option* option : at->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
  if (!word.starts_with('-')) {
    names.clear();
    for (const CLI::App* command : commands) names.push_back(command->get_name());
  }
  const std::string plain = word.substr(0, word.find('='));
  const std::vector<std::string_view> views(names.begin(), names.end());
  const char* kind = word.starts_with('-') ? "option" : commands.empty() ? "argument" : "command";
  return fmt::format("unknown {} {}{}", kind, in_quotes(plain),
                     views.empty() ? "" : suggestion(plain, views));
}

[[noreturn]] void refuse(const CLI::App& app, std::string_view why) {
  throw UsageError("KB-U001", "{}\n  see: {} --help", why, full_name(deepest(&app)));
}

// Refuses options with an empty value: an unwanted option has to be left out.
void check_values(const CLI::App& app) {
  for (const CLI::App* at = &app; at != nullptr;) {
    for (const CLI::Option* option : at->get_options()) {
      const auto& values = option->results();
      if (option->get_type_size() == 0) continue;  // a flag
      if (std::ranges::find(values, "") == values.end()) continue;
      throw UsageError("KB-U012",
                       "{} '': expected {}, got nothing; leave the option out if it is not wanted",
                       option->get_name(), option->get_type_name());
    }
    at = at->get_subcommands().empty() ? nullptr : at->get_subcommands().front();
  }
}

// Refuses `--out=`, since CLI11 would take the next word as its value.
void check_words(std::span<const char* const> words) {
  for (const std::string_view word : words) {
    if (word == "--") return;
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string_view option = word.substr(0, word.size() - 1);
    throw UsageError(
        "KB-U012", "{} '': expected a value, got nothing; leave the option out if it is not wanted",
        shown(option));
  }
}

std::string print_help(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream text;
  app.exit(error, text, text);
  return text.str();
}

}  // namespace

Arguments parse_command_line(int argc, const char* const* argv) {
  CLI::App app(
      "Multi-rank collectives and kernels on a simulated accelerator:\n"
      "times and values in one run.",
      "kernbench");
  app.set_version_flag("-V,--version", fmt::format("kernbench {}", version()));
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.require_subcommand(1);
  app.footer(
      "\nExamples:\n  kernbench list\n  kernbench run --bench ccl-allreduce\n"
      "  kernbench bench --case rms\n"
      "  kernbench whatif --bench tp-mlp --set tp=4\n"
      "  kernbench probe path --from sip0.cube0.pe0 --to sip1.cube0.pe0 --bytes 64KiB\n"
      "  kernbench errors KB-C002\n"
      "`kernbench COMMAND --help` shows more.");
  Commands commands;
  add_commands(app, commands);
  if (argc > 1 && std::string_view(argv[1]) == "complete") {
    return ShowText{candidates({argv + 2, argv + argc}, app)};
  }
  check_words({argv, static_cast<std::size_t>(argc)});
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return ShowText{print_help(app, success)};
  } catch (const CLI::ParseError& error) {
    // A misspelt word explains why another is missing, so it comes first.
    const std::vector<std::string> unknown = app.remaining(true);
    refuse(app, unknown.empty() ? error.what() : describe_unknown(app, unknown.front()));
  }
  check_values(app);
  if (app.got_subcommand("list")) return commands.list;
  if (app.got_subcommand("keys")) return commands.keys;
  if (app.got_subcommand("draw")) return commands.draw;
  if (app.got_subcommand("errors")) return commands.errors;
  if (app.got_subcommand("run")) return commands.run;
  if (app.got_subcommand("whatif")) return commands.whatif;
  if (app.got_subcommand("plan")) return commands.plan;
  if (app.got_subcommand("calibrate")) return commands.calibrate;
  if (app.got_subcommand("compare")) return commands.compare;
  if (app.got_subcommand("bench")) return commands.bench;
  if (app.got_subcommand("completion")) return ShowText{completion_script(commands.shell)};
  const CLI::App* const probe = app.get_subcommand("probe");
  if (probe->got_subcommand("path")) return commands.path;
  if (probe->got_subcommand("choose")) return commands.choose;
  if (probe->got_subcommand("order")) return commands.order;
  if (probe->got_subcommand("gemm")) return commands.gemm;
  return commands.bound;
}

}  // namespace kernbench::benches::cli
