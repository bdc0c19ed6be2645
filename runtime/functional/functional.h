// All of runtime/functional that a user calls: the operators on tensors.

#pragma once

#include "runtime/functional/activations.h"
#include "runtime/functional/attention.h"
#include "runtime/functional/compile.h"
#include "runtime/functional/cross_entropy.h"
#include "runtime/functional/dropout.h"
#include "runtime/functional/elementwise.h"
#include "runtime/functional/embedding.h"
#include "runtime/functional/indexing.h"
#include "runtime/functional/linear.h"
#include "runtime/functional/losses.h"
#include "runtime/functional/matmul.h"
#include "runtime/functional/normalization.h"
#include "runtime/functional/reductions.h"
#include "runtime/functional/shape_operators.h"
