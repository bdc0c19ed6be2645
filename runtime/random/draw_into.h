// Random elements of a tensor.

#pragma once

#include "runtime/random/generator.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::random {

// Sets all elements to `numbers(generator)`, outside of simulated time.  In a context without data,
// where nobody reads them and those of a large model would take the host minutes, it only counts
// the call, so that later numbers are the same.
template <class Numbers>
void draw_into(Tensor::Storage& storage, Generator& generator, const Numbers& numbers) {
  if (storage.simulation->machine().memory().has_data()) {
    return runtime::set_elements(storage, numbers(generator));
  }
  generator.draw();
  runtime::fill(storage, 0);
}

}  // namespace kernbench::random
