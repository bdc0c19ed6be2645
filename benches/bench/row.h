// A row of a bench's results: named cells (benches/bench/cell.h), as JSON and CSV have them.

#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kernbench::benches {

struct Cell;
struct Cells;

// Cells by column, in the order in which they were set.
class Row {
 public:
  Row();
  Row(const Row& other);
  Row(Row&& other) noexcept;
  Row& operator=(Row other) noexcept;
  ~Row();

  // Sets a column to a number, a text, a bool, or an optional of one of them.  A column is set
  // once.
  template <class Value>
  Row& set(std::string_view column, const Value& value) {
    if constexpr (std::same_as<Value, bool>) {
      return set_flag(column, value);
    } else if constexpr (std::integral<Value>) {
      return set_integer(column, static_cast<std::int64_t>(value));
    } else if constexpr (std::floating_point<Value>) {
      return set_number(column, static_cast<double>(value));
    } else if constexpr (std::convertible_to<const Value&, std::string_view>) {
      return set_text(column, value);
    } else {
      return value ? set(column, *value) : set_nothing(column);
    }
  }

  Row& set_cell(std::string_view column, Cell cell);

  const Cells& cells() const { return *cells_; }
  const Cell* find(std::string_view column) const;

 private:
  Row& set_flag(std::string_view column, bool value);
  Row& set_integer(std::string_view column, std::int64_t value);
  Row& set_number(std::string_view column, double value);
  Row& set_text(std::string_view column, std::string_view value);
  Row& set_nothing(std::string_view column);

  std::unique_ptr<Cells> cells_;
};

// RFC 4180, the columns in the order in which rows name them first.
std::string to_csv(std::span<const Row> rows);

// The same rows for people, in aligned columns.
std::string to_table(std::span<const Row> rows);

}  // namespace kernbench::benches
