// States in files, written and read by us and by numpy.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "runtime/nn/layers.h"
#include "runtime/nn/state.h"
#include "runtime/optim/optimizer.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::save_test {
namespace {

constexpr const char* kScript = KERNBENCH_ROOT "/test/golden/numpy_state.py";

// A file's name, whose file is removed at the end.
class ScratchFile {
 public:
  ScratchFile()
      : path_(std::filesystem::temp_directory_path() /
              ("kernbench_save_test_" + std::to_string(::getpid()) + ".npz")) {}
  ~ScratchFile() { std::filesystem::remove(path_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  std::string path() const { return path_.string(); }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

 private:
  const std::filesystem::path path_;
};

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  CHECK(::pclose(pipe) == 0);
  return text;
}

nn::State some_state(OperatorsUnderTest& dut) {
  nn::State state;
  state.tensors.insert("fc.weight",
                       dut.tensor({2, 3}, {0, 0.125F, -0.25F, 1e-30F, 3, 4}, on_pes(kRow)));
  state.tensors.insert("half", dut.tensor({3}, {1.5F, -65504, 0x1p-24F}, on_pes(kR), DType::f16));
  state.tensors.insert("brain", dut.tensor({2, 1, 1}, {3, 0x1p100F}, on_pes(kR), DType::bf16));
  state.tensors.insert("none", dut.torch.zeros({0, 4}));
  state.tensors.insert("scalar", dut.tensor({}, {7}));
  const std::vector<std::int16_t> whole{255, -32768};
  for (const DType dtype : {DType::u8, DType::i8, DType::i16, DType::boolean}) {
    state.tensors.insert(std::string(name_of(dtype)),
                         dut.torch.tensor(whole, {2}, {.dtype = dtype}));
  }
  state.numbers.insert("param_groups.0.lr", 1e-3);
  return state;
}

TEST_CASE("a state that was saved is loaded again, bit for bit", "[nn][save]") {
  OperatorsUnderTest dut;
  const ScratchFile file;
  const nn::State state = some_state(dut);
  nn::save(state, file.path());
  const nn::State loaded = nn::load(file.path());
  CHECK(loaded.tensors.keys() == state.tensors.keys());
  for (const auto& item : state.tensors) {
    CHECK(loaded.tensors[item.key()].shape() == item.value().shape());
    CHECK(loaded.tensors[item.key()].to_vector() == item.value().to_vector());
  }
  CHECK(loaded.tensors["i16"].dtype() == DType::i16);
  CHECK(loaded.numbers["param_groups.0.lr"] == 1e-3);
  const std::string first = file.bytes();
  nn::save(state, file.path());
  CHECK(file.bytes() == first);
}

TEST_CASE("numpy reads what was saved", "[nn][save]") {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2> /dev/null") != 0) {
    WARN("python3-numpy is not installed");
    return;
  }
  OperatorsUnderTest dut;
  const ScratchFile file;
  nn::save(some_state(dut), file.path());
  CHECK(output_of(std::string("/usr/bin/python3 ") + kScript + " " + file.path()) ==
        "fc.weight float32 2x3 0 0.125 -0.25 1.0000000031710769e-30 3 4\n"
        "half float16 3 1.5 -65504 5.9604644775390625e-08\n"
        "brain float32 2x1x1 3 1.2676506002282294e+30\n"
        "none float32 0x4\n"
        "scalar float32 scalar 7\n"
        "u8 uint8 2 255 0\n"
        "i8 int8 2 -1 0\n"
        "i16 int16 2 255 -32768\n"
        "bool bool 2 1 1\n"
        "param_groups.0.lr float64 scalar 0.001\n");
}

TEST_CASE("what numpy has saved is read", "[nn][save]") {
  const nn::State state = nn::load(KERNBENCH_ROOT "/test/golden/numpy_state.npz");
  CHECK(state.tensors.keys() == std::vector<std::string>{"fc.weight", "fc.bias", "steps"});
  CHECK(state.tensors["fc.weight"].shape() == Shape{2, 3});
  CHECK(state.tensors["fc.weight"].to_vector() == Floats{0, 0.125F, 0.25F, 0.375F, 0.5F, 0.625F});
  CHECK(state.tensors["fc.bias"].to_vector() == Floats{1.5F, -2, 65504});
  CHECK(state.tensors["steps"].to_vector() == Floats{7});
  CHECK(state.numbers["lr"] == 1e-3);
}

TEST_CASE("a training that was saved goes on as one that was not", "[nn][save]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::bf16, DType::f32);
  const ScratchFile model_file;
  const auto train = [&](const nn::Linear& model, optim::Optimizer& optimizer, int steps) {
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      model(dut.tensor({2, 4}, sixteenths(8, i), on_pes(kR), dtype)).square().sum().backward();
      optimizer.step();
    }
    return model->weight.to_vector();
  };
  const nn::Linear first(dut.torch, 4, 3, {.dtype = dtype, .dp = on_pes(kR)});
  optim::AdamW of_first(first->parameters(), 0.1);
  train(first, of_first, 3);
  nn::save(first->state_dict(), model_file.path());
  const nn::Linear second(dut.torch, 4, 3, {.dtype = dtype, .dp = on_pes(kR)});
  second->load_state_dict(nn::load(model_file.path()).tensors);
  optim::AdamW of_second(second->parameters(), 0.5);
  nn::save(of_first.state_dict(), model_file.path());
  of_second.load_state_dict(nn::load(model_file.path()));
  CHECK(train(second, of_second, 3) == train(first, of_first, 3));
}

TEST_CASE("what is no file is refused, and nothing waits for it", "[nn][save]") {
  const auto text = [](const std::string& path) {
    return error_of<IoError>([&] { nn::load(path); });
  };
  CHECK_THAT(text("/dev/zero"), Says("KB-I013", "'/dev/zero'", "Not a regular file"));
  CHECK_THAT(text("/"), Says("KB-I013", "'/'", "Is a directory"));
  const ScratchFile fifo;
  REQUIRE(::mkfifo(fifo.path().c_str(), 0600) == 0);
  CHECK_THAT(text(fifo.path()), Says("KB-I013", "Not a regular file"));
}

TEST_CASE("files that are none of these are refused", "[nn][save]") {
  OperatorsUnderTest dut;
  const ScratchFile file;
  const auto refusal = [&] { return error_of<IoError>([&] { nn::load(file.path()); }); };
  CHECK_THAT(refusal(), Says("KB-I013", "cannot read", "No such file"));
  file.write("hello");
  CHECK_THAT(refusal(), Says("KB-I013", "is no .npz file"));
  nn::save(some_state(dut), file.path());
  const std::string good = file.bytes();
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    file.write(damaged);
    try {
      nn::load(file.path());  // a damaged name or date is nothing that it can see
    } catch (const IoError& error) {
      CHECK(error.code() == "KB-I013");
    } catch (const CollectiveError& error) {
      CHECK(error.code() == "KB-A010");  // a name that stands there twice
    }
  }
  file.write(good.substr(0, good.size() - 30));
  CHECK_THAT(refusal(), Says("KB-I013"));
  CHECK_THAT(error_of<IoError>([&] { nn::save(some_state(dut), "/no/such/folder/x.npz"); }),
             Says("KB-I010", "/no/such/folder/x.npz"));
}

TEST_CASE("integers and bool keep their types in a file", "[nn][save]") {
  OperatorsUnderTest dut;
  const std::vector<std::int64_t> numbers{std::numeric_limits<std::int64_t>::max(), -1, 0};
  nn::StateDict tensors;
  for (const DType dtype : {DType::i32, DType::i64, DType::boolean}) {
    const std::vector<std::int64_t> own{dtype == DType::i64 ? numbers[0] : 1, -1, 0};
    tensors.insert(std::string(name_of(dtype)),
                   dut.torch.tensor(std::span<const std::int64_t>(own), {3}, {.dtype = dtype}));
  }
  const ScratchFile file;
  nn::save(tensors, file.path());
  const nn::State loaded = nn::load(file.path());
  for (const auto& item : tensors) {
    const Tensor& read = loaded.tensors[item.key()];
    CHECK(read.dtype() == item.value().dtype());
    CHECK(read.to_vector<std::int64_t>() == item.value().to_vector<std::int64_t>());
    CHECK(read.is_host());
  }
}

}  // namespace
}  // namespace kernbench::test::save_test
