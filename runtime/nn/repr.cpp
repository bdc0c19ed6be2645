#include "runtime/nn/repr.h"

#include <fmt/format.h>

#include <iterator>
#include <ostream>
#include <typeinfo>

#include "runtime/nn/module.h"
#include "sim_engine/base/exception_text.h"

namespace kernbench::nn {

std::string repr(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string repr(const Shape& shape) {
  return fmt::format("({}{})", fmt::join(shape.begin(), shape.end(), ", "),
                     shape.rank() == 1 ? "," : "");
}

std::string repr(const functional::Pair& pair) {
  if (pair.height == pair.width) return fmt::format("{}", pair.height);
  return fmt::format("({}, {})", pair.height, pair.width);
}

namespace {

// Takes the arguments of the last template away: "a::List<b::C>" is "a::List".
std::string without_arguments(std::string name) {
  if (!name.ends_with('>')) return name;
  int depth = 0;
  do {
    depth += name.back() == '>' ? 1 : name.back() == '<' ? -1 : 0;
    name.pop_back();
  } while (depth > 0 && !name.empty());
  return name;
}

void append_indented(std::string& text, std::string_view lines) {
  for (const char c : lines) {
    text += c;
    if (c == '\n') text += "  ";
  }
}

}  // namespace

// "Sequential" of kernbench::nn::SequentialImpl.
std::string Module::name() const {
  std::string name = without_arguments(demangle(typeid(*this).name()));
  if (const std::size_t scope = name.rfind("::"); scope != std::string::npos) {
    name.erase(0, scope + 2);
  }
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

std::string to_string(const Module& module) {
  const std::string arguments = module.extra_repr();
  std::string text = module.name() + "(";
  const bool is_short =
      module.named_children().is_empty() && arguments.find('\n') == std::string::npos;
  if (is_short) return text + arguments + ")";
  if (!arguments.empty()) append_indented(text, "\n" + arguments);
  for (const auto& [name, child] : module.named_children()) {
    append_indented(text, fmt::format("\n({}): {}", name, to_string(*child)));
  }
  return text + "\n)";
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << to_string(module);
}

}  // namespace kernbench::nn
