// Keeps the finished points of a sweep on disk while it runs, so that an interrupted sweep can go
// on.
//
// When a point ends, its line is appended in one write, so that the file always holds whole lines
// and at most one torn line at its end.  Lines carry a checksum and the hash of all inputs; damaged
// or stale lines are never used.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "benches/bench/point_outcome.h"

namespace kernbench::benches {

class SweepJournal {
 public:
  // Creates the file and its folder, or reads an existing file.  Throws IoError KB-I010 if it
  // cannot be written or read.
  SweepJournal(std::filesystem::path path, std::uint64_t inputs);
  // Removes the file if it has no points.
  ~SweepJournal();
  // Removes the lines of a run with these inputs, whose results are all written.  Lines of other
  // inputs stay, since their run may be resumed.
  static void forget(const std::filesystem::path& path, std::uint64_t inputs);
  // The points of a run with these inputs in the journal of another folder.
  using Points = std::map<std::string, PointOutcome>;
  static Points read(const std::filesystem::path& path, std::uint64_t inputs);
  SweepJournal(const SweepJournal&) = delete;
  SweepJournal& operator=(const SweepJournal&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // The outcome of this point in the interrupted run; null if the journal has none that is valid.
  const PointOutcome* find(const std::string& point) const;

  // The number of damaged lines, which have been removed from the file.
  int damaged_count() const { return damaged_count_; }

  // Appends a point.  A failure is kept for failure() and ends the journal, but not the sweep.
  void append(const std::string& point, const PointOutcome& outcome);
  // The errno of the write that failed, or 0.
  int failure() const { return failure_; }

 private:
  std::string whole_lines(std::string_view text);

  const std::filesystem::path path_;
  const std::uint64_t inputs_;
  Points found_;
  int damaged_count_ = 0;
  bool is_empty_ = true;
  int descriptor_ = -1;
  int failure_ = 0;
};

}  // namespace kernbench::benches
