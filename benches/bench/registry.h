// A registry holds things of one kind by name: the benches of a program, or its operator cases.
//
// Everything is entered in the same way: by a function register_...(), which the program calls for
// what is shipped (cli/main.cpp, cli/program.cpp) and a macro calls before main() for what a user
// has in his files.

#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benches/bench/settings.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches {

template <class Entry>
class Registry {
 public:
  // `kind` follows an article: "a bench".
  Registry(std::string_view article, std::string_view kind, std::string_view unknown_code)
      : article_(article), kind_(kind), unknown_code_(unknown_code) {}

  // Throws UsageError KB-U006 if the name is taken.
  bool add(std::string_view name, Entry entry) {
    if (!entries_.try_emplace(std::string(name), std::move(entry)).second) {
      throw UsageError("KB-U006", "{} {} named {} exists already; give yours another name",
                       article_, kind_, in_quotes(name));
    }
    return true;
  }

  // Throws UsageError `unknown_code` with the nearest name if there is none of that name.
  const Entry& find(std::string_view name) const {
    if (const auto found = entries_.find(name); found != entries_.end()) return found->second;
    std::vector<std::string_view> names;
    for (const auto& [known, entry] : entries_) names.push_back(known);
    throw UsageError(unknown_code_, fmt::format("no {} is named {}{}", kind_, in_quotes(name),
                                                suggestion(name, names)));
  }

  // Pairs of name and entry, in the order of the names.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  const std::string_view article_;
  const std::string_view kind_;
  const std::string_view unknown_code_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace kernbench::benches
