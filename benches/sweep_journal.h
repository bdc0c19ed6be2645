// The finished points of a sweep, on disk while it runs: an interrupted one goes on from there.
//
// A line for each point, appended in one write when it ends, so that whatever happens the file
// holds whole lines and at most one torn one at its end.  Lines carry a checksum and the hash of
// all inputs: what is damaged or stale is never used.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "benches/point_outcome.h"

namespace kernbench::benches {

class SweepJournal {
 public:
  // Creates the file and its folder, or reads what is there.  Throws IoError KB-I010 if it cannot
  // be written or read.
  SweepJournal(std::filesystem::path path, std::uint64_t inputs);
  // A journal without any point does not stay.
  ~SweepJournal();
  // All results of a run with these inputs are written: its lines are not needed any more.  What
  // the file holds of other inputs stays; their run may come back.
  static void forget(const std::filesystem::path& path, std::uint64_t inputs);
  SweepJournal(const SweepJournal&) = delete;
  SweepJournal& operator=(const SweepJournal&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // What the interrupted run has left of this point; null if nothing that is of use.
  const PointOutcome* find(const std::string& point) const;

  // How many lines were damaged.  They are gone now.
  int damaged_count() const { return damaged_count_; }

  // A failure is kept for failure(), and ends the journal: results matter more.
  void append(const std::string& point, const PointOutcome& outcome);
  // errno, or 0.
  int failure() const { return failure_; }

 private:
  std::string whole_lines(std::string_view text);

  const std::filesystem::path path_;
  const std::uint64_t inputs_;
  std::map<std::string, PointOutcome> found_;  // by point
  int damaged_count_ = 0;
  bool is_empty_ = true;
  int descriptor_ = -1;
  int failure_ = 0;
};

}  // namespace kernbench::benches
