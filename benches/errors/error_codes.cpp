#include "benches/errors/error_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "benches/bench/settings.h"
#include "benches/errors/error_tables.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::errors {

namespace {

constexpr std::string_view kStart = "KB-";

std::vector<ErrorFamily> join_families() {
  std::vector<ErrorFamily> all;
  for (const auto& part :
       {families_a_to_d(), families_f_to_m(), families_n_to_t(), families_u_to_y()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Makes "KB-C002" of "c002".
std::string spell_out(std::string_view word) {
  std::string code;
  for (const char c : word) {
    code += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return code.starts_with("KB") ? code : std::string(kStart) + code;
}

// Collects the codes that begin as the word does up to its letter, or all if there are none.
std::vector<std::string_view> similar_codes(std::string_view word) {
  const std::string_view start = word.substr(0, kStart.size() + 1);
  std::vector<std::string_view> similar;
  std::vector<std::string_view> all;
  for (const ErrorFamily& family : error_families()) {
    for (const ErrorCode& one : family.codes) {
      all.push_back(one.code);
      if (one.code.starts_with(start)) similar.push_back(one.code);
    }
  }
  return similar.empty() ? all : similar;
}

[[noreturn]] void refuse_code(std::string_view word, std::string_view code) {
  const std::vector<std::string_view> codes = similar_codes(code);
  const bool is_near = !nearest(code, codes).empty();
  throw UsageError("KB-U020", "no error code is named {}{}\n  see: kernbench errors",
                   in_quotes(word), is_near ? suggestion(code, codes) : "");
}

}  // namespace

std::span<const ErrorFamily> error_families() {
  static const std::vector<ErrorFamily> families = join_families();
  return families;
}

const ErrorCode& find_error_code(std::string_view word) {
  const std::string code = spell_out(word);
  for (const ErrorFamily& family : error_families()) {
    const auto found = std::ranges::find(family.codes, code, &ErrorCode::code);
    if (found != family.codes.end()) return *found;
  }
  refuse_code(word, code);
}

}  // namespace kernbench::benches::errors
