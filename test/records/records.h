// The decision records: adr/ in English is canonical, adr-ko/ mirrors it file by file in Korean.
//
// A record is ADR-NNNN-title-in-words.md; it has a title line "# ADR-NNNN: Title" and one line
// "Status: ...".  A translation begins with "<!-- translates adr/<file name> -->", has the same
// file name and ID, and the same Status, byte for byte.  Each folder has an INDEX.md.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kernbench::records {

// Returns what is wrong with the records under `root`, each as "file: why", sorted.  Empty if all
// is well.  Line ends (LF, CRLF), a byte order mark and the dash or colon behind a title's ID do
// not matter.
std::vector<std::string> check(const std::filesystem::path& root);

// Writes adr/INDEX.md and adr-ko/INDEX.md.  Throws std::runtime_error if that cannot be done.
void write_indexes(const std::filesystem::path& root);

}  // namespace kernbench::records
