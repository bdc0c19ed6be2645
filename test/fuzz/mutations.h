// Small damages to a text, of bytes, lines, words and nesting.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "test/fuzz/random.h"

namespace kernbench::fuzz {

// Mutations insert words and lines from here.
struct Material {
  std::vector<std::string> words;      // of the shipped files and of the parser
  const std::string* other = nullptr;  // another input, to take lines from
};

using Mutation = void (*)(std::string& text, Random& random, const Material& material);

// Returns the mutations that leave a text as long as it was, or nearly.
std::span<const Mutation> mutations();

// Makes the text some hundred thousand bytes long, by repetition or by nesting.
void blow_up(std::string& text, Random& random);

// Returns the runs of letters, digits, '_', '.', '-' and '/' in a text: keys, numbers, names.
std::vector<std::string> words_in(std::string_view text);

}  // namespace kernbench::fuzz
