// Rows saved by an evaluation bench, from which its figures can be drawn again without simulation.
//
// A JSON file for people and programs: {"schema", "configuration", "checksum", "rows"}.  The
// configuration is Bench::inputs_hash(): another build, topology, seed or setting has another.  The
// checksum is over the rows' text.  Stale or damaged rows are never used.

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/row.h"

namespace kernbench::benches {

std::string saved_rows_text(std::string_view schema, std::uint64_t configuration,
                            std::span<const Row> rows);

struct SavedRows {
  std::vector<Row> rows;
  std::string problem;  // why there are none, in one line; empty if there is none
};

// Parses a file's text.  No text makes it throw.
SavedRows parse_saved_rows(std::string_view text, std::string_view schema,
                           std::uint64_t configuration);

// Reads and parses a file.
SavedRows read_saved_rows(const std::filesystem::path& path, std::string_view schema,
                          std::uint64_t configuration);

}  // namespace kernbench::benches
