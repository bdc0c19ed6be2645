// `kernbench completion bash`, and the candidates that its script asks for.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <span>

#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/cli/options.h"
#include "benches/errors/error_codes.h"
#include "benches/operators/operator_cases.h"
#include "benches/variants/keys.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::cli {

namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kCalibrate = "calibrate";
constexpr std::string_view kPlan = "plan";

constexpr std::string_view kBashScript = R"(# bash completion of kernbench: source it, or
#   kernbench completion bash > ~/.local/share/bash-completion/completions/kernbench
_kernbench() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _kernbench kernbench
)";

// The value of an option that stands in the words; empty if it does not.
std::string find_value(const Words& words, const std::string& option) {
  const auto found = std::ranges::find(words, option);
  return found == words.end() || found + 1 == words.end() ? std::string() : *(found + 1);
}

// Returns none if the words before name a file or a bench that does not exist.
Words key_names(const Words& words) try {
  variants::KeySources sources;
  if (const std::string topology = find_value(words, "--topology"); !topology.empty()) {
    sources.topology = topology;
  }
  sources.ccl = find_value(words, "--ccl");
  if (const std::string bench = find_value(words, "--bench"); !bench.empty()) {
    sources.bench = &registered_benches().find(bench);
  }
  if (words.front() == kPlan) sources.bench = &registered_benches().find(kPlan);
  if (words.size() > 2 && words.front() == kCalibrate) {
    sources.bench = &registered_benches().find(kCalibrate);
    sources.topology = words[1].substr(0, words[1].find('='));
  }
  Words names;
  const variants::Keys keys(sources);
  for (const variants::Key& key : keys.all()) names.push_back(key.name + '=');
  return names;
} catch (const Error&) {
  return {};
}

Words bench_names() {
  Words names;
  for (const auto& [name, info] : registered_benches()) names.push_back(name);
  return names;
}

Words case_names() {
  Words names;
  for (const auto& [name, one] : operators::operator_cases()) names.push_back(name);
  return names;
}

Words topology_names() {
  Words names;
  for (const ShippedTopology& topology : shipped_topologies()) names.emplace_back(topology.name);
  return names;
}

// Words that `kernbench calibrate` takes: "h100_8=", behind which a file stands.
Words machine_names() {
  Words names;
  for (const std::string& name : topology_names()) names.push_back(name + '=');
  return names;
}

Words error_codes() {
  Words codes;
  for (const errors::ErrorFamily& family : errors::error_families()) {
    for (const errors::ErrorCode& one : family.codes) codes.emplace_back(one.code);
  }
  return codes;
}

Words names_in(const CLI::App& app) {
  Words names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (!names.empty()) return names;
  if (app.get_name() == "errors") names = error_codes();
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The values of the option that the last word belongs to; nullopt if it is not one that has names.
std::optional<Words> values_at(const Words& words) {
  const auto option = std::find_if(words.rbegin() + 1, words.rend(),
                                   [](const std::string& word) { return word.starts_with("--"); });
  const bool is_machine = words.front() == kCalibrate && option == words.rend();
  if (words.back().starts_with("-") || (option == words.rend() && !is_machine)) return std::nullopt;
  if (is_machine) return words.end()[-2] == "=" ? Words() : machine_names();
  const bool is_next = option == words.rbegin() + 1;
  const bool has_keys =
      *option == "--set" || *option == "--vary" || *option == "--uncertain" || *option == "--fit";
  if (has_keys) {
    return words.end()[-2] == "=" ? Words() : key_names(words);  // bash cuts words at "="
  }
  if (!is_next) return std::nullopt;
  if (*option == "--bench") return bench_names();
  if (*option == "--case") return case_names();
  if (*option == "--topology") return topology_names();
  return Words();
}

}  // namespace

std::string candidates(const std::vector<std::string>& words, const CLI::App& app) {
  const CLI::App* at = &app;
  for (const std::string& word :
       std::span(words).first(std::max<std::size_t>(words.size(), 1) - 1)) {
    const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
    const auto found = std::ranges::find(
        commands, word, [](const CLI::App* command) { return command->get_name(); });
    if (found != commands.end()) at = *found;
  }
  const Words all = words.size() > 1 ? values_at(words).value_or(names_in(*at)) : names_in(*at);
  const std::string_view start = words.empty() ? std::string_view() : words.back();
  std::string text;
  for (const std::string& name : all) {
    if (name.starts_with(start)) text += name + '\n';
  }
  return text;
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return std::string(kBashScript);
  throw UsageError("KB-U001", "completion: there is one for bash, not for {}", in_quotes(shell));
}

}  // namespace kernbench::benches::cli
