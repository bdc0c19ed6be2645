// The element types' bits: conversion from and to f32, the type that arithmetic is done in.
//
// Rounding is to nearest, ties to even; what is too large becomes an infinity; subnormals and the
// sign of zero are kept; a NaN stays a NaN and becomes quiet.  The results have the same bits in
// every build, with or without the processor's conversion instructions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim_engine/base/dtype.h"

namespace kernbench::sim {

std::uint16_t f16_bits_of(float value);
std::uint16_t bf16_bits_of(float value);
float value_of_f16(std::uint16_t bits);
float value_of_bf16(std::uint16_t bits);

// `value` rounded once to the type.
float round_to(DType dtype, float value);
float round_to(DType dtype, double value);

// Writes source's elements to `target`, each rounded once to the type.
// REQUIRES: target has room for them and does not overlap source; it need not be aligned
void encode(DType dtype, std::span<const float> source, std::byte* target);

// Reads target.size() elements of the type.  The conversion is exact.
// REQUIRES: source and target do not overlap
void decode(DType dtype, const std::byte* source, std::span<float> target);

}  // namespace kernbench::sim
