// Ranks with Megatron's groups, and small whole numbers, whose sums of products are exact.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/distributed/local_backend.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"
#include "tp/parallel_state.h"

namespace kernbench::test {

using Floats = std::vector<float>;

// A matrix on the host, row by row; and what of it ranks have.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Floats elements = {};

  Matrix(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count),
        columns(column_count),
        elements(static_cast<std::size_t>(row_count * column_count)) {}
  Matrix(std::int64_t row_count, std::int64_t column_count, Floats given)
      : rows(row_count), columns(column_count), elements(std::move(given)) {}

  // Whole numbers from -most to most.
  static Matrix of_integers(std::int64_t rows, std::int64_t columns, int most, int seed) {
    Matrix made(rows, columns);
    for (std::size_t i = 0; i < made.elements.size(); ++i) {
      const int value = static_cast<int>(i) * 5 + static_cast<int>(i) / 7 * 3 + seed * 11;
      made.elements[i] = static_cast<float>(value % (2 * most + 1) - most);
    }
    return made;
  }

  float& at(std::int64_t row, std::int64_t column) {
    return elements[static_cast<std::size_t>(row * columns + column)];
  }
  float at(std::int64_t row, std::int64_t column) const {
    return elements[static_cast<std::size_t>(row * columns + column)];
  }

  Matrix transposed() const {
    Matrix made(columns, rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) made.at(j, i) = at(i, j);
    }
    return made;
  }
  Matrix rows_from(std::int64_t begin, std::int64_t count) const {
    Matrix made(count, columns);
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) made.at(i, j) = at(begin + i, j);
    }
    return made;
  }
  Matrix columns_from(std::int64_t begin, std::int64_t count) const {
    return transposed().rows_from(begin, count).transposed();
  }
  // The part of one of `count` ranks.
  Matrix rows_of(int rank, int count) const { return rows_from(rank * rows / count, rows / count); }
  Matrix columns_of(int rank, int count) const {
    return columns_from(rank * columns / count, columns / count);
  }

  // The sum of the rows.
  Matrix sum_of_rows() const {
    Matrix made(1, columns);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) made.at(0, j) += at(i, j);
    }
    return made;
  }
  // With one row added to each.
  Matrix plus_row(const Matrix& row) const {
    Matrix made = *this;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) made.at(i, j) += row.at(0, j);
    }
    return made;
  }
  // f of each element and of that of another matrix.
  Matrix zipped(const Matrix& other, const std::function<float(float, float)>& f) const {
    Matrix made = *this;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      made.elements[i] = f(elements[i], other.elements[i]);
    }
    return made;
  }

  friend Matrix operator*(const Matrix& a, const Matrix& b) {
    Matrix made(a.rows, b.columns);
    for (std::int64_t i = 0; i < a.rows; ++i) {
      for (std::int64_t k = 0; k < a.columns; ++k) {
        for (std::int64_t j = 0; j < b.columns; ++j) made.at(i, j) += a.at(i, k) * b.at(k, j);
      }
    }
    return made;
  }
};

struct WorldOptions {
  std::string backend = "local";
  tp::ModelParallelOptions parallel = {};
  int cubes = 1;  // of each device, of 2 PEs
  RuntimeOptions runtime = {};
};

class TensorParallelWorld {
 public:
  // A ring of devices.
  explicit TensorParallelWorld(int ranks, const WorldOptions& options)
      : TensorParallelWorld(round_topology(SipTopology::ring_1d, ranks, 1, options.cubes, 1),
                            options) {}
  TensorParallelWorld(const Topology& topology, const WorldOptions& options)
      : torch(topology, options.runtime), size(topology.system.sip_count) {
    torch.distributed.init_process_group(options.backend);
    tp::initialize_model_parallel(torch, options.parallel);
  }

  // Each rank on the device of its number.
  void spawn(const std::function<void(int)>& body) { run_on_devices(torch, size, body); }

  // A tensor on the caller's device.
  Tensor tensor(const Floats& elements, const Shape& shape, const TensorOptions& options = kOne) {
    Tensor made = torch.empty(shape, options);
    made.copy_(RuntimeContext::tensor(elements, shape));
    return made;
  }
  Tensor tensor(const Matrix& matrix, const TensorOptions& options = kOne) {
    return tensor(matrix.elements, {matrix.rows, matrix.columns}, options);
  }
  Tensor leaf(const Matrix& matrix, const TensorOptions& options = kOne) {
    return tensor(matrix, options).requires_grad_();
  }
  Tensor filled(const Shape& shape, float value) {
    return tensor(Floats(static_cast<std::size_t>(shape.numel()), value), shape);
  }

  inline static const TensorOptions kOne = {.dp = DPPolicy::on_one_pe()};

  RuntimeContext torch;
  const int size;
};

}  // namespace kernbench::test
