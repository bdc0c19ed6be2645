// A campaign's child shares this memory with its parent, which reads it when the child has crashed.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kernbench::fuzz {

class SharedState {
 public:
  static constexpr std::size_t kMaxInput = std::size_t{1} << 22;

  // Maps it; the memory is given back with the object of the parent.
  SharedState();
  ~SharedState();
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  struct Counters {
    std::uint64_t run = 0;  // the number of the one that is under way
    std::uint64_t accepted = 0;
    double slowest_s = 0;
  };
  Counters& counters();

  void set_input(std::string_view input);
  std::string_view input() const;

  // The text of the finding; it is empty until there is one.
  void set_finding(std::string_view text);
  std::string_view finding() const;

  // True the first time that it is called with a number.
  bool is_new(std::uint64_t hash);

  // Inputs that were kept.  One that does not fit any more is not.
  void keep(std::string_view input);
  std::size_t kept_count() const;
  std::string_view kept(std::size_t i) const;

 private:
  struct Memory;
  Memory* memory_;
};

}  // namespace kernbench::fuzz
