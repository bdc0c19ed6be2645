// The element types' bits: conversion from and to f32 and i64, the types that arithmetic is done
// in.
//
// Rounding is to nearest, ties to even; what is too large becomes an infinity, or NaN in f8e4m3fn,
// which has no infinity; subnormals and the sign of zero are kept; a NaN stays a NaN and becomes
// quiet.  To integers, numbers are rounded towards zero; what is too large becomes the largest
// there is, as on torch's devices, and NaN 0.  In types of 8 and 16 bits it wraps around, as
// torch's on the CPU, but for infinities.  i64 becomes smaller integers modulo 2^32, 2^16 or 2^8.
// A bool is whether a number is not 0.  The results have the same bits in every build, with or
// without the processor's conversion instructions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim_engine/base/dtype.h"

namespace kernbench::sim {

std::uint16_t to_f16_bits(float value);
std::uint16_t to_bf16_bits(float value);
float value_of_f16(std::uint16_t bits);
float value_of_bf16(std::uint16_t bits);
// The 8-bit types of the Open Compute Project: 1 bit of sign, 4 or 5 of exponent.
std::uint8_t to_f8_bits(DType dtype, float value);
float value_of_f8(DType dtype, std::uint8_t bits);

// `value` rounded once to the type.  REQUIRES: a type of floating point
float round_to(DType dtype, float value);
float round_to(DType dtype, double value);
// `value` as an element of an integral type.
std::int64_t to_whole_number(DType dtype, double value);
std::int64_t to_whole_number(DType dtype, std::int64_t value);

// Writes source's elements to `target`, each rounded once to the type.
// REQUIRES: target has room for them and does not overlap source; it need not be aligned
void encode(DType dtype, std::span<const float> source, std::byte* target);
void encode(DType dtype, std::span<const std::int64_t> source, std::byte* target);

// Reads target.size() elements of the type.  The conversion is exact, but for integers that f32
// cannot represent.
// REQUIRES: source and target do not overlap; to i64: an integral type
void decode(DType dtype, const std::byte* source, std::span<float> target);
void decode(DType dtype, const std::byte* source, std::span<std::int64_t> target);

}  // namespace kernbench::sim
