#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kernbench::sim {

// Activation applied to each element of the result.  gelu is x / 2 (1 + tanh(sqrt(2 / pi) (x +
// 0.044715 x^3))), torch's approximate='tanh'; silu is x sigmoid(x).
enum class Activation : std::uint8_t { none, relu, sigmoid, silu, gelu };

inline constexpr std::array kActivations = {Activation::none, Activation::relu, Activation::sigmoid,
                                            Activation::silu, Activation::gelu};

// "none", "relu", ...
std::string_view name_of(Activation activation);

}  // namespace kernbench::sim
