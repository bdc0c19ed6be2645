#include "runtime/functional/attention_rows.h"

#include <algorithm>
#include <utility>

namespace kernbench::ops {

tl::Tensor flat(tl::Context& tl, const tl::Tensor& x) {
  return tl.reshape(x, {x.shape().numel()});
}

tl::Tensor as_rows(tl::Context& tl, const tl::Tensor& x, std::int64_t columns) {
  return tl.reshape(x, {x.shape().numel() / columns, columns});
}

tl::Tensor narrowed(tl::Context& tl, const tl::Tensor& x, const RowRange& rows) {
  const std::int64_t columns = x.shape()[1];
  return as_rows(tl, tl.narrow(flat(tl, x), rows.first * columns, rows.count * columns), columns);
}

SumOfProducts::SumOfProducts(tl::Context& tl, const Shape& shape)
    : pieces_{tl.zeros(shape, DType::f32)} {}

void SumOfProducts::add(tl::Context& tl, const tl::Tensor& a, const tl::Tensor& b) {
  const std::int64_t count = a.shape()[0];
  if (pieces_.front().shape()[0] == count) {
    pieces_.front() = tl.dot(a, b, std::move(pieces_.front()));
    return;
  }
  std::vector<tl::Tensor> first;
  std::vector<tl::Tensor> rest;
  std::int64_t begin = 0;
  for (const tl::Tensor& piece : pieces_) {
    const std::int64_t end = begin + piece.shape()[0];
    const std::int64_t cut = std::clamp(count, begin, end) - begin;
    if (cut > 0) first.push_back(flat(tl, narrowed(tl, piece, {0, cut})));
    if (begin + cut < end) rest.push_back(narrowed(tl, piece, {cut, end - begin - cut}));
    begin = end;
  }
  rest.insert(rest.begin(), tl.dot(a, b, as_rows(tl, tl.cat(first), b.shape()[1])));
  pieces_ = std::move(rest);
}

tl::Tensor SumOfProducts::join(tl::Context& tl) const {
  std::vector<tl::Tensor> parts;
  for (const tl::Tensor& piece : pieces_) parts.push_back(flat(tl, piece));
  return as_rows(tl, tl.cat(parts), pieces_.front().shape()[1]);
}

}  // namespace kernbench::ops
