#include "test/tidy/standard_includes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace kernbench::tidy {

namespace {

struct Header {
  std::string_view name;
  std::string_view words;  // behind "std::" or "fmt::", with a space on both sides
};

// Without what nearly every header brings along: size_t, pair, move, swap.
const std::array<Header, 36> kHeaders = {{
    {"algorithm",
     " sort stable_sort find_if any_of all_of none_of count_if clamp min_element max_element "
     "lower_bound upper_bound transform copy_n fill_n reverse equal unique remove_if binary_search "
     "iter_swap is_sorted ranges::sort ranges::find ranges::any_of ranges::all_of "
     "ranges::none_of ranges::count_if ranges::copy ranges::max ranges::min ranges::equal "
     "ranges::fill ranges::transform ranges::stable_sort ranges::reverse ranges::max_element "
     "ranges::min_element ranges::lower_bound ranges::find_if "},
    {"any", " any any_cast "},
    {"array", " array to_array "},
    {"atomic", " atomic atomic_flag "},
    {"bit", " bit_cast popcount bit_ceil has_single_bit countr_zero bit_width "},
    {"charconv", " from_chars to_chars "},
    {"chrono", " chrono::duration chrono::seconds chrono::milliseconds "},
    {"cmath", " sqrt exp log isnan isfinite isinf ldexp nextafter tanh erf pow ceil floor fma "},
    {"condition_variable", " condition_variable "},
    {"cstdint", " int64_t uint64_t int32_t uint32_t uint8_t int8_t uint16_t uintptr_t "},
    {"cstdlib", " getenv strtol abort _Exit quick_exit "},
    {"cstring", " memcpy memset memcmp strerror strlen "},
    {"deque", " deque "},
    {"exception", " exception_ptr current_exception rethrow_exception make_exception_ptr "},
    {"filesystem", " filesystem::path filesystem::exists filesystem::remove "},
    {"fstream", " ifstream ofstream fstream "},
    {"functional", " function hash ref cref invoke plus greater ranges::greater bind_front "},
    {"iostream", " cout cerr cin "},
    {"limits", " numeric_limits "},
    {"list", " list "},
    {"map", " map multimap "},
    {"memory", " unique_ptr shared_ptr weak_ptr make_unique make_shared addressof "},
    {"mutex", " mutex lock_guard unique_lock scoped_lock once_flag call_once "},
    {"numeric", " accumulate iota gcd lcm midpoint reduce partial_sum inner_product "},
    {"optional", " optional nullopt "},
    {"queue", " queue priority_queue "},
    {"random", " mt19937 mt19937_64 uniform_int_distribution normal_distribution "},
    {"set", " set multiset "},
    {"source_location", " source_location "},
    {"span", " span "},
    {"sstream", " ostringstream istringstream stringstream "},
    {"stdexcept", " runtime_error logic_error invalid_argument out_of_range "},
    {"thread", " thread jthread this_thread::sleep_for this_thread::yield "},
    {"unordered_map", " unordered_map "},
    {"variant", " variant visit monostate holds_alternative get_if "},
    {"vector", " vector "},
}};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}

// The name inside #include "..." or #include <...>; empty if the line is none.
std::string_view included(std::string_view text) {
  if (!text.starts_with("#include ")) return {};
  const std::size_t begin = text.find_first_of("\"<");
  const std::size_t end = text.find_first_of("\">", begin + 1);
  return begin == std::string_view::npos || end == std::string_view::npos
             ? std::string_view{}
             : text.substr(begin + 1, end - begin - 1);
}

// The header of the name that begins at `at`; nullptr if it is none of the table.
const Header* header_of(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_word(text[end])) ++end;
  const std::string word = fmt::format(" {} ", text.substr(at, end - at));
  for (const Header& header : kHeaders) {
    if (header.words.find(word) != std::string_view::npos) return &header;
  }
  return nullptr;
}

class Includes {
 public:
  explicit Includes(const Lines& lines) {
    for (const Line& line : lines) {
      const std::string_view name = included(line.text);
      if (!name.empty()) direct_[line.file].insert(std::string(name));
    }
  }

  // True if the file, or a file of the project that it includes, includes `header`.
  bool reaches(const std::string& file, std::string_view header) {
    return all_of(file).contains(std::string(header));
  }

 private:
  const std::set<std::string>& all_of(const std::string& file) {
    const auto [known, is_new] = all_.try_emplace(file);
    if (!is_new) return known->second;  // also where files include each other
    std::set<std::string> all;
    for (const std::string& name : direct_[file]) {
      all.insert(name);
      const std::string path = direct_.contains(name) ? name : "benches/include/" + name;
      if (direct_.contains(path)) all.merge(std::set<std::string>(all_of(path)));
    }
    return all_[file] = std::move(all);
  }

  std::map<std::string, std::set<std::string>> direct_;
  std::map<std::string, std::set<std::string>> all_;
};

}  // namespace

Offences check_standard_includes(const Lines& lines) {
  Includes includes(lines);
  Offences offences;
  std::set<std::pair<std::string, std::string_view>> told;
  const auto require = [&](const Line& line, std::string_view header) {
    if (includes.reaches(line.file, header) || !told.emplace(line.file, header).second) return;
    offences.push_back(fmt::format("{}:{}: includes no <{}>", line.file, line.number, header));
  };
  for (const Line& line : lines) {
    const std::string_view text = std::string_view(line.text).substr(0, line.text.find("//"));
    for (auto at = text.find("std::"); at != std::string_view::npos;
         at = text.find("std::", at + 1)) {
      if (at > 0 && is_word(text[at - 1])) continue;
      if (const Header* header = header_of(text, at + 5)) require(line, header->name);
    }
    if (text.find("fmt::format(") != std::string_view::npos) require(line, "fmt/format.h");
  }
  return offences;
}

}  // namespace kernbench::tidy
