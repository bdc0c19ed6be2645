// ccl::Config::parse(): ccl.yaml.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>

#include "ccl/core/config.h"
#include "test/fuzz/parser.h"

namespace kernbench::fuzz::ccl_yaml {

namespace {

using ccl::Config;

// A larger file is only parsed.  Printing copies all entries for each of them, and the text may be
// longer than what it was read from.
constexpr std::size_t kMostEntries = 100;
constexpr std::size_t kLongestFile = std::size_t{1} << 20;

// In double quotes, as YAML wants it: printable or escaped.
std::string double_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result + '"';
}

// Every algorithm that the file can run.
std::set<std::string> names_in(const Config& config) {
  std::set<std::string> names;
  for (const ccl::Algorithm* one : ccl::algorithms()) {
    const bool is_a_default =
        one->kernel != nullptr || serves(*one, distributed::CollectiveKind::all_reduce);
    if (is_a_default) names.emplace(one->name);
  }
  for (const std::string& own : config.unused_entries()) names.insert(own);
  if (!config.is_auto()) names.insert(config.algorithm_name());
  return names;
}

// Returns the settings in force.
std::string settings_of(const Config& config) {
  const sim::IpcqParams queues = config.ipcq();
  std::string text = fmt::format(
      "buffer_kind: {}, depth: {}, slot: {} B, eager: {} B, wait: {}, "
      "n_elem: [{}]",
      name_of(queues.buffer_kind), queues.depth, queues.slot_bytes, config.eager_bytes(),
      name_of(queues.wait), fmt::join(config.n_elem(), ", "));
  if (queues.wait == sim::WaitPolicy::poll) {
    text += fmt::format(", poll_interval: {} ps", queues.poll_interval.count());
  }
  if (config.world_size()) text += fmt::format(", world_size: {}", *config.world_size());
  return text + fmt::format(", root: {}", name_of(config.root()));
}

// Prints the participants of the defaults only if they are no fallback: beside `participants` no
// algorithm may have `world_size`.
std::string participants_of(const Config& config, bool in_defaults) {
  const bool is_fallback = config.participants() == ccl::Participants::shard_holders;
  if (config.world_size() || (in_defaults && is_fallback)) return "";
  return fmt::format(", participants: {}", name_of(config.participants()));
}

// The same with the kernel that runs, and how its PEs are joined.
std::string entry_of(const Config& config) {
  std::string joined;
  for (const ccl::Neighbours one : config.neighbours()) joined += name_of(one);
  return fmt::format("kernel: {}, {}, neighbours: {}", config.algorithm().name, settings_of(config),
                     joined);
}

std::string to_text(const Config& config) {
  std::string text = "defaults: {";
  if (config.names_algorithm()) {
    text += fmt::format("algorithm: {}, ", double_quoted(config.algorithm_name()));
  }
  const Config defaults = config.with_algorithm(ccl::kAuto);
  text += settings_of(defaults) + participants_of(defaults, true) + "}\nalgorithms:\n";
  for (const std::string& name : names_in(config)) {
    text += fmt::format("  ? {}\n  : {{{}}}\n", double_quoted(name),
                        entry_of(config.with_algorithm(name)));
  }
  return text;
}

void check(std::string_view input) {
  const Config config = Config::parse(input, "c.yaml");
  if (config.unused_entries().size() > kMostEntries) return;
  const std::string text = to_text(config);
  if (text.size() > kLongestFile) return;
  try {
    const std::string again = to_text(Config::parse(text, "c.yaml"));
    if (again == text) return;
    throw Finding("printed and read again it is another configuration:\n" + text + again);
  } catch (const Error& error) {
    throw Finding(fmt::format("accepted, and refused when printed: {}\n{}", error.what(), text));
  }
}

}  // namespace

Parser parser() {
  return {.name = "ccl",
          .check = check,
          .shipped = {"ccl/ccl.yaml"},
          .words =
              "auto tcm sram hbm eager sleep poll poll_interval world_size participants root "
              "neighbours kernel shard_holders one_pe_per_sip center corner ring grid tree "
              "ring_allreduce tree_allreduce mesh_allreduce hello_send B KiB MiB ps ns"};
}

}  // namespace kernbench::fuzz::ccl_yaml
