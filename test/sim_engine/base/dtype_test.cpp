#include "sim_engine/base/dtype.h"

#include <catch2/catch.hpp>

namespace kernbench::dtype_test {

TEST_CASE("a dtype's name parses back to it", "[dtype]") {
  for (const DType dtype : kDTypes) CHECK(parse_dtype(name_of(dtype)) == dtype);
  CHECK_FALSE(parse_dtype("fp16").has_value());
}

TEST_CASE("dtypes have PyTorch's sizes and names", "[dtype]") {
  CHECK(size_of(DType::f16) == 2);
  CHECK(size_of(DType::bf16) == 2);
  CHECK(size_of(DType::f32) == 4);
  CHECK(torch_name_of(DType::bf16) == "BFloat16");
}

}  // namespace kernbench::dtype_test
