// The decision records: adr/ in English is canonical, adr-ko/ mirrors it file by file in Korean.
//
// A record is ADR-NNNN-title-in-words.md; it has a title line "# ADR-NNNN: Title", one line
// "Status: ..." and one line "Topic: ..." (with ", read first" for the records that a newcomer
// begins with).  A translation begins with "<!-- translates adr/<file name> -->", has the same file
// name and ID, and the same Status and Topic, byte for byte.  A measured figure names what shows it
// (figures.h).  Each folder has an INDEX.md, by topic.

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
