// torch.nn.init: initial values of parameters, without recording.  They take no simulated time.

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::init {

const Tensor& uniform_(const Tensor& tensor, double low = 0, double high = 1);
const Tensor& normal_(const Tensor& tensor, double mean = 0, double std = 1);
const Tensor& constant_(const Tensor& tensor, double value);
const Tensor& ones_(const Tensor& tensor);
const Tensor& zeros_(const Tensor& tensor);

// Of a matrix [out, in].  Throw DeviceError KB-F001 for fewer dimensions.
//   xavier   uniform within gain sqrt(6 / (in + out)), or normal with gain sqrt(2 / (in + out))
//   kaiming  uniform within sqrt(6 / ((1 + a^2) in)), or normal with sqrt(2 / ((1 + a^2) in))
const Tensor& xavier_uniform_(const Tensor& tensor, double gain = 1);
const Tensor& xavier_normal_(const Tensor& tensor, double gain = 1);
const Tensor& kaiming_uniform_(const Tensor& tensor, double a = 0);
const Tensor& kaiming_normal_(const Tensor& tensor, double a = 0);

}  // namespace kernbench::nn::init
