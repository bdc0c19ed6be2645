#include "runtime/ops/indexed.h"

#include <map>
#include <optional>

#include "runtime/ops/device_kernel.h"
#include "runtime/ops/pieces.h"

namespace kernbench::ops {

namespace {

// A PE's part around a dimension: `outer` groups of `size` indices with `inner` elements each.
struct Around {
  tl::Pointer data;
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;

  Around(const Tensor& tensor, std::size_t dimension, const tl::Context& tl)
      : data(local_part(tensor, tl).data) {
    const Shape& shape = shard_at(tensor, tl.location()).shape;
    for (std::size_t d = 0; d < shape.rank(); ++d) {
      (d < dimension ? outer : d == dimension ? size : inner) *= shape[d];
    }
  }
  std::int64_t pitch() const { return size * inner; }
};

// Where the elements of an index come from: for each, the indices that are added up.
using Sources = std::vector<Indices>;

Sources list_sources(const Indices& indices, std::int64_t size) {
  Sources sources(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    sources[static_cast<std::size_t>(indices[i])].push_back(static_cast<std::int64_t>(i));
  }
  return sources;
}

tl::Tensor load(tl::Context& tl, const Around& from, std::int64_t index, const MatrixBlock& block) {
  return tl.load(from.data + block.row * from.pitch() + index * from.inner + block.column,
                 {block.height, block.width}, from.data.dtype(), from.pitch());
}

// Stores the sum of the blocks of these indices; zeros if there are none.
void store_sum(tl::Context& tl, const Around& from, const Indices& indices, const Around& to,
               std::int64_t index) {
  for_each_matrix_block(tl, to.outer, to.inner, [&](const MatrixBlock& block) {
    tl::Tensor sum = indices.empty() ? tl.zeros({block.height, block.width}, to.data.dtype())
                                     : load(tl, from, indices.front(), block);
    const DType sums = is_integral(to.data.dtype()) ? DType::i64 : DType::f32;
    if (indices.size() > 1) sum = tl.cast(sum, sums);
    for (std::size_t i = 1; i < indices.size(); ++i) {
      sum = sum + tl.cast(load(tl, from, indices[i], block), sums);
    }
    tl.store(to.data + block.row * to.pitch() + index * to.inner + block.column,
             tl.cast(sum, to.data.dtype()), to.pitch());
  });
}

Tensor collected(std::string_view name, const Tensor& x, std::size_t dimension,
                 const Sources& sources) {
  Tensor result =
      make_like(x, name, with_size(x.shape(), dimension, static_cast<std::int64_t>(sources.size())),
                x.dtype(), placement_of(x));
  launch(name, {result}, {x}, [=](tl::Context& tl) {
    const Around from(x, dimension, tl);
    const Around to(result, dimension, tl);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      store_sum(tl, from, sources[i], to, static_cast<std::int64_t>(i));
    }
  });
  return result;
}

// Positions in a PE's part, row by row, of the element that each element of a part of the indices
// stands for.
class Places {
 public:
  // `shape` is that of the indices, `shard` the PE's part of a tensor of that shape, and `size`
  // what the gathered tensor has along the dimension.
  Places(const Shape& shape, const ShardInfo& shard, std::size_t dimension, const Indices& indices,
         std::int64_t size) {
    std::vector<std::int64_t> at(shape.rank(), 0);
    for (std::int64_t i = 0; i < shard.shape.numel(); ++i) {
      std::int64_t in_indices = 0;
      for (std::size_t d = 0; d < at.size(); ++d) {
        in_indices = in_indices * shape[d] + shard.offset[d] + at[d];
      }
      std::int64_t place = 0;
      for (std::size_t d = 0; d < at.size(); ++d) {
        const bool is_indexed = d == dimension;
        place = place * (is_indexed ? size : shard.shape[d]) +
                (is_indexed ? indices[static_cast<std::size_t>(in_indices)] : at[d]);
      }
      places_.push_back(place);
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < shard.shape[d]) break;
        at[d] = 0;
      }
    }
  }

  const Indices& all() const { return places_; }

 private:
  Indices places_;
};

}  // namespace

Tensor taken(const Tensor& x, std::size_t dimension, const Indices& indices) {
  Sources sources;
  for (const std::int64_t index : indices) sources.push_back({index});
  return collected("index_select", x, dimension, sources);
}

Tensor given_back(const Tensor& dy, std::size_t dimension, const Indices& indices,
                  std::int64_t size) {
  return collected("index_select_backward", dy, dimension, list_sources(indices, size));
}

Tensor gathered(const Tensor& x, std::size_t dimension, const Indices& indices,
                const Shape& shape) {
  Tensor result = make_like(x, "gather", shape, x.dtype(), placement_of(x));
  launch("gather", {result}, {x}, [=, size = x.shape()[dimension]](tl::Context& tl) {
    const tl::Pointer from = local_part(x, tl).data;
    const tl::Pointer to = local_part(result, tl).data;
    const Places places(shape, shard_at(result, tl.location()), dimension, indices, size);
    std::int64_t at = 0;
    for (const std::int64_t place : places.all()) {
      tl.store(to + at++, tl.load(from + place, {1}, x.dtype()));
    }
  });
  return result;
}

namespace {

// Writes a PE's part of a scattered tensor: elements of `src` at their places, and between them
// those of a base, or 0.
class PartScatter {
 public:
  PartScatter(tl::Context& tl, const LocalPart& to, const tl::Pointer& src,
              const std::optional<tl::Pointer>& base, Scatter how)
      : tl_(tl), to_(to), src_(src), base_(base), how_(how) {}

  // `places`: for each element of src the place in the result.
  void run(const Indices& places) {
    std::map<std::int64_t, Indices> sources;
    for (std::size_t i = 0; i < places.size(); ++i) {
      sources[places[i]].push_back(static_cast<std::int64_t>(i));
    }
    std::int64_t end = 0;  // of what is written
    for (const auto& [place, of] : sources) {
      write_rest(end, place);
      tl_.store(to_.data + place, element(place, of));
      end = place + 1;
    }
    write_rest(end, to_.shape.numel());
  }

 private:
  tl::Tensor element(std::int64_t place, const Indices& of) {
    const DType dtype = src_.dtype();
    if (how_ == Scatter::replace) return load(src_ + of.back(), 1);
    const DType sums = is_integral(dtype) ? DType::i64 : DType::f32;
    std::optional<tl::Tensor> sum;
    if (base_) sum = tl_.cast(load(*base_ + place, 1), sums);
    for (const std::int64_t i : of) {
      const tl::Tensor summand = tl_.cast(load(src_ + i, 1), sums);
      sum = sum ? *sum + summand : summand;
    }
    return tl_.cast(*sum, dtype);
  }

  void write_rest(std::int64_t first, std::int64_t end) {
    for_each_block(end - first, block_elements(tl_), [&](std::int64_t begin, std::int64_t count) {
      tl_.store(to_.data + first + begin,
                base_ ? load(*base_ + first + begin, count) : tl_.zeros({count}, src_.dtype()));
    });
  }

  tl::Tensor load(const tl::Pointer& from, std::int64_t count) {
    return tl_.load(from, {count}, from.dtype());
  }

  tl::Context& tl_;
  const LocalPart to_;
  const tl::Pointer src_;
  const std::optional<tl::Pointer> base_;
  const Scatter how_;
};

}  // namespace

Tensor scattered_into(const Tensor& x, std::size_t dimension, const Indices& indices,
                      const Tensor& src, Scatter how) {
  Tensor result = make_like(x, "scatter", x.shape(), x.dtype(), placement_of(x));
  launch("scatter", {result}, {x, src}, [=](tl::Context& tl) {
    const Places places(src.shape(), shard_at(src, tl.location()), dimension, indices,
                        x.shape()[dimension]);
    PartScatter(tl, local_part(result, tl), local_part(src, tl).data, local_part(x, tl).data, how)
        .run(places.all());
  });
  return result;
}

Tensor scattered(const Tensor& dy, std::size_t dimension, const Indices& indices,
                 std::int64_t size) {
  const Shape shape = with_size(dy.shape(), dimension, size);
  Tensor result = make_like(dy, "gather_backward", shape, dy.dtype(), placement_of(dy));
  launch("gather_backward", {result}, {dy}, [=](tl::Context& tl) {
    const Places places(dy.shape(), shard_at(dy, tl.location()), dimension, indices, size);
    PartScatter(tl, local_part(result, tl), local_part(dy, tl).data, std::nullopt, Scatter::add)
        .run(places.all());
  });
  return result;
}

}  // namespace kernbench::ops
