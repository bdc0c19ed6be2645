// torch.nn.init: initial values of parameters, without recording.  They take no simulated time.

#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::init {

const Tensor& uniform_(const Tensor& tensor, double low = 0, double high = 1);
const Tensor& normal_(const Tensor& tensor, double mean = 0, double std = 1);
const Tensor& constant_(const Tensor& tensor, double value);
const Tensor& ones_(const Tensor& tensor);
const Tensor& zeros_(const Tensor& tensor);
// The identity, of a matrix.  Throws DeviceError KB-F001 for other dimensions.
const Tensor& eye_(const Tensor& tensor);
// Normal, but drawn again until it lies in [a, b].
const Tensor& trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1, double a = -2,
                            double b = 2);

// Of a matrix [out, in].  Throw DeviceError KB-F001 for fewer dimensions.
//   xavier   uniform within gain sqrt(6 / (in + out)), or normal with gain sqrt(2 / (in + out))
//   kaiming  uniform within sqrt(6 / ((1 + a^2) fan)), or normal with sqrt(2 / ((1 + a^2) fan)),
//            where fan is in, or out: activations keep their variance, or gradients do
enum class FanMode : std::uint8_t { fan_in, fan_out };
const Tensor& xavier_uniform_(const Tensor& tensor, double gain = 1);
const Tensor& xavier_normal_(const Tensor& tensor, double gain = 1);
const Tensor& kaiming_uniform_(const Tensor& tensor, double a = 0, FanMode mode = FanMode::fan_in);
const Tensor& kaiming_normal_(const Tensor& tensor, double a = 0, FanMode mode = FanMode::fan_in);

}  // namespace kernbench::nn::init
