// Properties of the source tree that the compiler does not hold.  Each rule returns its offences,
// each as "file:line: why".

#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace kernbench::tidy {

struct Line {
  std::string file;  // from the repository root
  int number = 0;    // from 1
  std::string text;
};

using Lines = std::vector<Line>;
using Offences = std::vector<std::string>;

// All lines of the C++ sources under `root`, in order of file names.  A folder that does not exist
// has none.
Lines read_sources(const std::filesystem::path& root);

// The same for everything else that is written by hand: build files, scripts, documents,
// topologies.
Lines read_other_texts(const std::filesystem::path& root);

// Includes point down the layers; tp and ccl do not know each other, and no file includes itself.
Offences check_layers(const Lines& lines);

// The rooms that each room may include, by its folder: "runtime/tensor".
using Rooms = std::map<std::string, std::set<std::string>, std::less<>>;

// Reads lines of "runtime/tensor: runtime/fiber sim_engine/base", as CMake writes them.
Rooms read_rooms(const std::filesystem::path& file);

// A room includes the rooms that its CMakeLists.txt says it uses, and uses each of them.
Offences check_rooms(const Lines& lines, const Rooms& rooms);

// An installed header includes installed headers alone.
Offences check_installed(const Lines& lines, const std::set<std::string>& installed);

// An installed header includes no header of the standard library that costs every user's file more
// than what it is needed for (ADR-0107), but by one of ours that exports the part that is needed.
Offences check_light(const Lines& lines, const std::set<std::string>& installed);

// Each package is included by the folder that owns it (and by that folder's tests) alone.
Offences check_package_owners(const Lines& lines);

// No wall clock in the model, no hidden state, no unfinished business.
Offences check_banned_words(const Lines& lines);

// ccl has one word for each level of its data: block, slice, chunk, message; channel and step
// (ADR-0173).  Other words for them are in no name and no comment.
Offences check_words_of_collectives(const Lines& lines);

// At most 100 columns and 400 lines per file.
Offences check_lengths(const Lines& lines);

// Nothing names a folder of the machine it was written on.
Offences check_machine_paths(const Lines& lines);

}  // namespace kernbench::tidy
