// The format of arrays: numpy.lib.format, version 1.0.

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/nn/state.h"
#include "runtime/nn/zip_archive.h"
#include "runtime/profiler/written_file.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"
#include "sim_engine/base/visible_text.h"
#include "sim_engine/config/input_file.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::nn {

namespace {

constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};
constexpr std::string_view kSuffix = ".npy";
constexpr std::size_t kHeaderAlignment = 64;

template <class Number>
void append(std::string& to, Number number) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &number, sizeof(Number));
  to.append(bytes, sizeof(Number));
}

template <class Number>
Number read_at(std::string_view bytes, std::size_t i) {
  Number number;
  std::memcpy(&number, bytes.data() + i * sizeof(Number), sizeof(Number));
  return number;
}

// Python's tuple: "()", "(3,)", "(3, 4,)".
std::string shape_text(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += fmt::format("{}, ", size);
  if (!text.empty()) text.pop_back();
  return text;
}

std::string array_head(std::string_view type, const Shape& shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type,
                                 shape_text(shape));
  const std::size_t bytes = kMagic.size() + 2 + text.size() + 1;
  text.append((kHeaderAlignment - bytes % kHeaderAlignment) % kHeaderAlignment, ' ');
  text += '\n';
  std::string head(kMagic);
  append(head, static_cast<std::uint16_t>(text.size()));
  return head + text;
}

// The name of a type in a header; numpy has neither bf16 nor 8-bit types, which become f32.
std::string_view type_name_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "<f2";
    case DType::u8:
      return "|u1";
    case DType::i8:
      return "|i1";
    case DType::i16:
      return "<i2";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::boolean:
      return "|b1";
    default:
      return "<f4";
  }
}

// Appends the elements as they lie in memory.
template <class Number>
std::string make_array(const Tensor& tensor, DType dtype) {
  std::string array = array_head(type_name_of(dtype), tensor.shape());
  const std::vector<Number> elements = tensor.to_vector<Number>();
  std::vector<std::byte> bytes(elements.size() * static_cast<std::size_t>(size_of(dtype)));
  sim::encode(dtype, std::span<const Number>(elements), bytes.data());
  array.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return array;
}

std::string make_array(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (is_integral(dtype)) return make_array<std::int64_t>(tensor, dtype);
  return make_array<float>(tensor, dtype == DType::f16 ? DType::f16 : DType::f32);
}

std::string make_array(double number) {
  std::string array = array_head("<f8", {});
  append(array, number);
  return array;
}

// One array of a file that is read.
class Array {
 public:
  Array(std::string_view path, std::string_view name, std::string_view array)
      : path_(path), name_(name) {
    if (!array.starts_with(kMagic.substr(0, 6)) || array.size() < 10) refuse("is no array");
    if (array[6] != 1) refuse("has a header of another version than 1.0");
    const std::size_t size = read_at<std::uint16_t>(array.substr(8), 0);
    if (array.size() < 10 + size) refuse("ends too early");
    head_ = array.substr(10, size);
    elements_ = array.substr(10 + size);
    if (find_value("'fortran_order': ").starts_with("True")) {
      refuse("has columns first: save numpy.ascontiguousarray(a)");
    }
    type_ = find_value("'descr': '");
    type_ = type_.substr(0, type_.find('\''));
  }

  bool is_number() const { return type_ == "<f8" && shape().rank() == 0; }
  double number() const { return elements().front(); }
  Tensor tensor() const {
    const std::map<std::string_view, DType> integral = {
        {"|u1", DType::u8},  {"|i1", DType::i8},  {"<i2", DType::i16},
        {"<i4", DType::i32}, {"<i8", DType::i64}, {"|b1", DType::boolean}};
    if (const auto type = integral.find(type_); type != integral.end()) {
      return Tensor(runtime::make_host_storage(shape(), integers(type->second), type->second));
    }
    std::vector<float> all;
    for (const double element : elements()) all.push_back(sim::round_to(DType::f32, element));
    return Tensor(runtime::make_host_storage(shape(), std::move(all)));
  }

 private:
  [[noreturn]] void refuse(std::string_view problem) const {
    throw IoError("KB-I013", "'{}': entry '{}' {}", visible(path_), visible(name_), problem);
  }

  // Returns the text that follows the key in the header.
  std::string_view find_value(std::string_view key) const {
    const std::size_t at = head_.find(key);
    if (at == std::string_view::npos) refuse("has no header of an array");
    return head_.substr(at + key.size());
  }

  Shape shape() const {
    std::string_view text = find_value("'shape': (");
    text = text.substr(0, text.find(')'));
    std::vector<std::int64_t> sizes;
    for (const char *at = text.data(), *const end = at + text.size(); at < end;) {
      std::int64_t size = 0;
      const auto [rest, error] = std::from_chars(at, end, size);
      if (error == std::errc()) sizes.push_back(size);
      at = error == std::errc() ? rest : at + 1;
    }
    return Shape(sizes);
  }

  void check_size(std::size_t count, std::size_t size) const {
    if (elements_.size() != count * size) refuse("has not as many bytes as its shape");
  }
  template <class Result, class Number, class Convert>
  std::vector<Result> numbers(const Convert& convert) const {
    const auto count = static_cast<std::size_t>(shape().numel());
    check_size(count, sizeof(Number));
    std::vector<Result> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(convert(read_at<Number>(elements_, i)));
    return all;
  }
  template <class Result, class Number>
  std::vector<Result> numbers() const {
    return numbers<Result, Number>([](Number number) { return static_cast<Result>(number); });
  }

  std::vector<std::int64_t> integers(DType dtype) const {
    const auto count = static_cast<std::size_t>(shape().numel());
    check_size(count, static_cast<std::size_t>(size_of(dtype)));
    std::vector<std::int64_t> all(count);
    sim::decode(dtype, reinterpret_cast<const std::byte*>(elements_.data()), std::span(all));
    for (std::int64_t& element : all) element = sim::to_whole_number(dtype, element);
    return all;
  }

  std::vector<double> elements() const {
    if (type_ == "<f2") {
      return numbers<double, std::uint16_t>(
          [](std::uint16_t bits) { return static_cast<double>(sim::value_of_f16(bits)); });
    }
    if (type_ == "<f4") return numbers<double, float>();
    if (type_ == "<f8") return numbers<double, double>();
    refuse(fmt::format("is of type {}; there are: <f2, <f4, <f8, |u1, |i1, <i2, <i4, <i8, |b1",
                       visible(type_)));
  }

  std::string_view path_;
  std::string_view name_;
  std::string_view head_;
  std::string_view elements_;
  std::string_view type_;
};

std::string read_file(const std::string& path) {
  try {
    return read_input_file(path, std::numeric_limits<Bytes>::max() - 1);
  } catch (const ConfigError& error) {
    // "[KB-I001] cannot read 'a': why" tells a reason of its own.
    const std::string_view text = error.what();
    throw IoError("KB-I013", text.substr(text.find(']') + 2));
  }
}

}  // namespace

void save(const State& state, const std::string& path) {
  std::vector<ArchivedFile> arrays;
  for (const auto& item : state.tensors) {
    arrays.emplace_back(item.key() + std::string(kSuffix), make_array(item.value()));
  }
  for (const auto& item : state.numbers) {
    arrays.emplace_back(item.key() + std::string(kSuffix), make_array(item.value()));
  }
  runtime::write_file(path, zip_archive(arrays, path));
}

void save(const StateDict& tensors, const std::string& path) {
  save(State{tensors, {}}, path);
}

State load(const std::string& path) {
  const std::string archive = read_file(path);
  State state;
  for (const auto& [file, bytes] : files_of_zip_archive(archive, path)) {
    const bool has_suffix = file.ends_with(kSuffix);
    const std::string name = has_suffix ? file.substr(0, file.size() - kSuffix.size()) : file;
    const Array array(path, name, bytes);
    if (array.is_number()) {
      state.numbers.insert(name, array.number());
    } else {
      state.tensors.insert(name, array.tensor());
    }
  }
  return state;
}

}  // namespace kernbench::nn
