// The log of the device's operations: one record per finished operation, in order of completion.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::sim {

enum class OpKind : std::uint8_t { load, store, math, send, recv, copy_in, gemm, composite };

inline constexpr std::size_t kOpKindCount = 8;

// "load", "store", ...
std::string_view name_of(OpKind kind);

struct OpRecord {
  OpKind kind = OpKind::load;
  DType dtype = DType::f32;
  std::uint32_t unit = 0;  // the PE, by its number: by SIP, cube, PE
  Time start{0};
  Time end{0};
  Bytes bytes = 0;  // of the data; gemm: of the result; composite: bytes that it moved
  std::int64_t element_count = 0;  // gemm and composite: the number of products, m n k
  friend bool operator==(const OpRecord&, const OpRecord&) = default;
};

// A hash of everything in the record, for the engine's fingerprint of its SIP: the unit counts by
// its number among the SIP's `pes`.
std::uint64_t digest(const OpRecord& record, std::uint32_t pes);

// Append-only.  Records lie in chunks, so that growing copies no record and references stay valid
// as long as their record is kept.
class CommandLog {
 public:
  // Keeps at least the last `limit` records, and fewer than two chunks more; 0: all.
  explicit CommandLog(std::size_t limit = 0);
  ~CommandLog();
  CommandLog(const CommandLog&) = delete;
  CommandLog& operator=(const CommandLog&) = delete;

  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = OpRecord;
    using difference_type = std::ptrdiff_t;
    using pointer = const OpRecord*;
    using reference = const OpRecord&;

    Iterator() = default;
    Iterator(const CommandLog* log, std::size_t index) : log_(log), index_(index) {}
    reference operator*() const { return (*log_)[index_]; }
    pointer operator->() const { return &(*log_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++index_;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const CommandLog* log_ = nullptr;
    std::size_t index_ = 0;
  };

  void append(const OpRecord& record);

  // The number of records so far, and the index of the first one that is kept.
  std::size_t size() const { return size_; }
  std::size_t first() const { return first_; }
  // REQUIRES: first() <= index < size()
  const OpRecord& operator[](std::size_t index) const;
  Iterator begin() const { return {this, first_}; }
  Iterator end() const { return {this, size_}; }

  // Counts the records of this kind.
  std::int64_t count(OpKind kind) const { return counts_[static_cast<std::size_t>(kind)]; }

 private:
  static constexpr std::size_t kChunk = 2048;  // 80 KiB

  void add_chunk();

  std::size_t limit_;
  std::vector<std::vector<OpRecord>> chunks_;
  std::size_t first_ = 0;  // a multiple of kChunk
  std::size_t size_ = 0;
  std::array<std::int64_t, kOpKindCount> counts_{};
};

}  // namespace kernbench::sim
