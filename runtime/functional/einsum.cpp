// torch.einsum: sums of products, by a letter for each dimension.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "runtime/functional/ids.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"

namespace kernbench {

namespace {

// An operand and the label of each of its dimensions: a letter, or for those that "..." stands for
// a number, counted from the last one, so that they are aligned as broadcasting does.
struct Term {
  Tensor tensor;
  std::string labels;

  int dim_of(char label) const { return static_cast<int>(labels.find(label)); }
  bool has(char label) const { return labels.find(label) != std::string::npos; }
  std::int64_t size_of(char label) const { return tensor.size(dim_of(label)); }
};

[[noreturn]] void refuse(const std::string& text) {
  ops::refuse_shapes("einsum", "einsum(): " + text);
}

// The labels of the dimensions that "..." stands for: n, ..., 2, 1.
std::string make_ellipsis(std::size_t count) {
  std::string labels;
  for (std::size_t i = count; i > 0; --i) labels.push_back(static_cast<char>(i));
  return labels;
}

// Replaces "..." by labels, and checks that the others are letters.
std::string expanded(std::string_view subscripts, const std::string& ellipsis) {
  std::string labels;
  for (std::size_t i = 0; i < subscripts.size(); ++i) {
    if (subscripts.substr(i, 3) == "...") {
      labels += ellipsis;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(subscripts[i])) != 0) {
      labels.push_back(subscripts[i]);
    } else {
      refuse(
          fmt::format("invalid subscript given at index {} in '{}': letters and '...' are wanted",
                      i, subscripts));
    }
  }
  return labels;
}

bool has_ellipsis(std::string_view subscripts) {
  return subscripts.find("...") != std::string_view::npos;
}

std::size_t count_letters(std::string_view subscripts) {
  return subscripts.size() - (has_ellipsis(subscripts) ? 3 : 0);
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',')
      parts.emplace_back();
    else
      parts.back().push_back(c);
  }
  return parts;
}

// Returns what a term holds where two of its dimensions of one label have equal indices.
Term without_repeated(Term term) {
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    const std::size_t again = term.labels.find(term.labels[i], i + 1);
    if (again == std::string::npos) continue;
    const auto first = static_cast<int>(i);
    const auto second = static_cast<int>(again);
    const std::int64_t size = term.tensor.size(first);
    if (term.tensor.size(second) != size) {
      refuse(
          fmt::format("subscript {} is repeated for an operand but the sizes don't match, {} != "
                      "{}",
                      term.labels[i], term.tensor.size(second), size));
    }
    const Tensor turned = transpose(transpose(term.tensor, second, -1), first, -2);
    const Tensor numbers = numbers_beside(term.tensor, size);
    const Tensor is_equal = unsqueeze(numbers, 1) == unsqueeze(numbers, 0);
    const Tensor kept = where(is_equal, turned, 0);
    // transpose() has put what was last in the second's place.
    term.tensor = sum(transpose(transpose(kept, first, -2), second, -1), second);
    term.labels.erase(again, 1);
    return without_repeated(std::move(term));
  }
  return term;
}

// Sums over the dimensions whose labels are not among those kept.
Term summed(Term term, const std::string& kept) {
  for (std::size_t i = term.labels.size(); i-- > 0;) {
    if (kept.find(term.labels[i]) != std::string::npos) continue;
    term.tensor = sum(term.tensor, static_cast<int>(i));
    term.labels.erase(i, 1);
  }
  return term;
}

// Returns the term's elements with its dimensions in this order; those that it has not have size 1.
Tensor arranged(const Term& term, const std::string& order) {
  std::vector<int> dims;
  for (const char label : order) {
    if (term.has(label)) dims.push_back(term.dim_of(label));
  }
  Tensor x = permute(term.tensor, dims);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!term.has(order[i])) x = unsqueeze(x, static_cast<int>(i));
  }
  return x;
}

// The labels of both operands of a product, by what becomes of them.
struct Roles {
  std::string batch;  // in both, and kept
  std::string depth;  // in both, and summed over
  std::string rows;   // in a alone
  std::string columns;

  Roles(const Term& a, const Term& b, const std::string& kept) {
    for (const char label : a.labels) {
      const bool is_kept = kept.find(label) != std::string::npos;
      (!b.has(label) ? rows : is_kept ? batch : depth).push_back(label);
    }
    for (const char label : b.labels) {
      if (!a.has(label)) columns.push_back(label);
    }
  }
};

std::int64_t count_elements(const Term& term, const std::string& labels) {
  std::int64_t count = 1;
  for (const char label : labels) count *= term.size_of(label);
  return count;
}

// Repeats a dimension of size 1 as often as the other operand has indices there.
Term repeated_beside(Term term, const Term& other) {
  std::vector<std::int64_t> sizes;
  for (const char label : term.labels) {
    const std::int64_t own = term.size_of(label);
    sizes.push_back(own == 1 && other.has(label) ? other.size_of(label) : own);
    if (!other.has(label) || sizes.back() == other.size_of(label) || other.size_of(label) == 1) {
      continue;
    }
    refuse(
        fmt::format("operands do not broadcast with remapped shapes: {} and {} where both have "
                    "the subscript '{}'",
                    to_string(term.tensor.shape()), to_string(other.tensor.shape()), label));
  }
  if (Shape(sizes) != term.tensor.shape()) term.tensor = expand(term.tensor, sizes);
  return term;
}

// One matrix product.  A factor is multiplied as it lies if its last dimension shows which way it
// is stored.
Tensor product_by_matmul(const Term& a, const Term& b, const Roles& roles) {
  const auto matrices = [&](const Term& term, const std::string& first, const std::string& second) {
    const Tensor x = arranged(term, roles.batch + first + second);
    const std::int64_t rows = count_elements(term, first);
    const std::int64_t columns = count_elements(term, second);
    if (roles.batch.empty()) return reshape(x, {rows, columns});
    return reshape(x, {count_elements(term, roles.batch), rows, columns});
  };
  const bool ends_in_depth = roles.depth.find(b.labels.back()) != std::string::npos;
  const Tensor left = matrices(a, roles.rows, roles.depth);
  return ends_in_depth
             ? matmul(left, matrices(b, roles.columns, roles.depth), {.transpose_b = true})
             : matmul(left, matrices(b, roles.depth, roles.columns));
}

Term product(const Term& of_a, const Term& of_b, const std::string& kept) {
  const Term a = repeated_beside(summed(of_a, kept + of_b.labels), of_b);
  const Term b = repeated_beside(summed(of_b, kept + of_a.labels), a);
  const Roles roles(a, b, kept);
  const std::string order = roles.batch + roles.rows + roles.columns;
  if (roles.depth.empty()) return {arranged(a, order) * arranged(b, order), order};
  std::vector<std::int64_t> sizes;
  for (const char label : order) sizes.push_back((a.has(label) ? a : b).size_of(label));
  return {reshape(product_by_matmul(a, b, roles), Shape(sizes)), order};
}

// The equation's terms: one for each operand, and one for the result.
struct Equation {
  std::vector<Term> terms;
  std::string result;

  Equation(std::string_view text, const std::vector<Tensor>& operands) {
    std::string equation;
    std::ranges::copy_if(text, std::back_inserter(equation), [](char c) { return c != ' '; });
    const std::size_t arrow = equation.find("->");
    const std::vector<std::string> parts = split_at_commas(equation.substr(0, arrow));
    if (parts.size() != operands.size()) {
      refuse(fmt::format("{} operands were provided than specified in the equation '{}': {}",
                         parts.size() > operands.size() ? "fewer" : "more", text, operands.size()));
    }
    std::size_t most = 0;  // dimensions that "..." stands for
    std::string all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t rank = operands[i].shape().rank();
      const std::size_t letters = count_letters(parts[i]);
      if (has_ellipsis(parts[i]) ? letters > rank : letters != rank) {
        refuse(fmt::format(
            "the number of subscripts in the equation ({}) does not match the number "
            "of dimensions ({}) for operand {}{}",
            letters, rank, i, has_ellipsis(parts[i]) ? "" : " and no ellipsis was given"));
      }
      most = std::max(most, has_ellipsis(parts[i]) ? rank - letters : 0);
      const std::string labels = expanded(parts[i], make_ellipsis(rank - std::min(rank, letters)));
      terms.push_back(without_repeated({operands[i], labels}));
      all += labels;
    }
    result = arrow == std::string::npos ? implicit_result(all, most)
                                        : expanded(equation.substr(arrow + 2), make_ellipsis(most));
    check_sizes(all);
    check_result();
  }

  // The result of an equation without "->" has the dimensions of "...", then the letters that stand
  // once, in alphabetical order.
  static std::string implicit_result(std::string all, std::size_t ellipsis) {
    std::ranges::sort(all);
    std::string labels = make_ellipsis(ellipsis);
    for (const char label : all) {
      if (std::isalpha(label) != 0 && std::ranges::count(all, label) == 1) labels.push_back(label);
    }
    return labels;
  }

  // Operands have the same size, or 1, where they have the same letter.
  void check_sizes(const std::string& labels) const {
    for (const char label : labels) {
      std::int64_t seen = 1;
      for (std::size_t i = 0; i < terms.size(); ++i) {
        const std::int64_t size = terms[i].has(label) ? terms[i].size_of(label) : 1;
        if (size == 1 || std::isalpha(label) == 0) continue;
        if (seen != 1 && size != seen) {
          refuse(
              fmt::format("subscript {} has size {} for operand {} which does not broadcast with "
                          "previously seen size {}",
                          label, size, i, seen));
        }
        seen = size;
      }
    }
  }

  void check_result() const {
    for (const char label : result) {
      if (std::ranges::count(result, label) > 1) {
        refuse(fmt::format("output subscript {} appears more than once in the output", label));
      }
      if (std::ranges::none_of(terms, [&](const Term& term) { return term.has(label); })) {
        refuse(
            fmt::format("output subscript {} does not appear in the equation for any input "
                        "operand",
                        label));
      }
    }
  }
};

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  if (operands.empty()) refuse("must provide at least one operand");
  ops::check_operands("einsum", operands, ops::Types::any);
  const Equation of(equation, operands);
  Term all = of.terms.front();
  for (std::size_t i = 1; i < of.terms.size(); ++i) {
    std::string kept = of.result;
    for (std::size_t later = i + 1; later < of.terms.size(); ++later) {
      kept += of.terms[later].labels;
    }
    all = product(all, of.terms[i], kept);
  }
  return arranged(summed(std::move(all), of.result), of.result);
}

}  // namespace kernbench
