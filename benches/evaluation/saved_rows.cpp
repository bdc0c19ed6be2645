#include "benches/evaluation/saved_rows.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "benches/bench/content_hash.h"
#include "benches/bench/row_json.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/input_file.h"

namespace kernbench::benches {

namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kMaxBytes = Bytes{1} << 28;  // a larger one is not ours

std::string hex(std::uint64_t number) {
  return fmt::format("{:016x}", number);
}

// The checksum does not depend on the layout of the file.
std::string checksum_of(const Json& rows) {
  return hex(content_hash(rows.dump()));
}

SavedRows rows_of(const Json& json, std::string_view schema, std::uint64_t configuration) {
  if (json.at("schema") != schema) {
    return {{}, fmt::format("of another schema, {}", shown(json.at("schema").dump()))};
  }
  if (json.at("checksum") != checksum_of(json.at("rows"))) {
    return {{}, "damaged: its rows do not have its checksum"};
  }
  if (json.at("configuration") != hex(configuration)) {
    return {{}, "stale: of another build, topology, seed or setting"};
  }
  return {rows_from_json(json.at("rows")), {}};
}

}  // namespace

std::string saved_rows_text(std::string_view schema, std::uint64_t configuration,
                            std::span<const Row> rows) {
  const Json cells = rows_to_json(rows);
  const Json json = {{"schema", schema},
                     {"configuration", hex(configuration)},
                     {"checksum", checksum_of(cells)},
                     {"rows", cells}};
  return json.dump(1) + '\n';
}

SavedRows parse_saved_rows(std::string_view text, std::string_view schema,
                           std::uint64_t configuration) {
  try {
    return rows_of(parse_rows_json(text), schema, configuration);
  } catch (const std::exception&) {
    return {{}, "damaged: not the JSON that was written"};
  }
}

SavedRows read_saved_rows(const std::filesystem::path& path, std::string_view schema,
                          std::uint64_t configuration) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {{}, "not there"};
  try {
    return parse_saved_rows(read_input_file(path, kMaxBytes), schema, configuration);
  } catch (const Error& error) {
    return {{}, fmt::format("cannot be read: {}", error.what())};
  }
}

}  // namespace kernbench::benches
