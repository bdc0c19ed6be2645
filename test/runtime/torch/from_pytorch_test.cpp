// The rows of the guide from-pytorch.md, compiled and run: each line of code that the guide shows
// here stands in this file.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/context_parallel/context_parallel.h"
#include "runtime/data/data_loader.h"
#include "runtime/distributed/local_backend.h"
#include "runtime/expert_parallel/expert_parallel.h"
#include "runtime/expert_parallel/moe.h"
#include "runtime/functional/grouped_mm.h"
#include "runtime/nn/convolution.h"
#include "runtime/nn/layers.h"
#include "runtime/nn/module.h"
#include "runtime/nn/state.h"
#include "runtime/optim/float16_optimizer.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/parallel/fully_shard.h"
#include "runtime/pipelining/schedules.h"
#include "test/runtime/distributed/local_world.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::from_pytorch_test {
namespace {

namespace kb = kernbench;

struct NetImpl : kb::nn::Module {
  explicit NetImpl(const kb::RuntimeContext& torch)
      : fc(register_module("fc", kb::nn::Linear(torch, 8, 4))) {}
  kb::Tensor forward(const kb::Tensor& x) const { return fc(x); }
  kb::nn::Linear fc;
};
KERNBENCH_MODULE(Net);

TEST_CASE("what the guide says of tensors works", "[guide]") {
  OperatorsUnderTest dut;
  kb::RuntimeContext& torch = dut.torch;
  torch.manual_seed(0);
  const kb::Tensor x = torch.randn({4, 8}, {.dtype = kb::DType::bf16});
  const kb::Tensor y = torch.tensor({1, 2, 3, 4}, {4, 1}, {.dtype = kb::DType::bf16});
  const kb::Tensor a = (1 - x) / (y + 2.0);
  const kb::Tensor b = where(x > 0, x, 0.0).clamp(-1, 1);
  const kb::Tensor c = a.mean(-1, true) + a.amax({0, 1}) + argmax(a, 1).to(kb::DType::bf16).sum();
  const kb::Tensor d = x.softmax(-1).log().t().reshape({4, -1});
  const kb::Tensor e = torch.zeros_like(x).add_(x, 0.5).mul_(2);
  CHECK(e.to_vector() == x.to_vector());
  x[0].zero_();
  CHECK(x.narrow(0, 0, 1).abs().sum().item() == 0);
  CHECK(x.slice(1, 1, 8, 2).shape() == Shape{4, 4});
  x.select(1, 3).zero_();
  CHECK(x.permute({1, 0}).contiguous()[3].abs().sum().item() == 0);
  const kb::Tensor v = x[0];
  CHECK(v.expand({4, -1}).shape() == x.shape());
  CHECK(stack(x.unbind(0)).to_vector() == x.to_vector());
  CHECK(cat(x.chunk(2, -1)).shape() == Shape{8, 4});
  const kb::Tensor flat = torch.zeros({16});
  kb::Tensor p = torch.ones({2, 4}).requires_grad_();
  p.mutable_grad() = flat.narrow(0, 0, 8).view({2, 4});
  p.sum().backward();
  CHECK(flat.sum().item() == 8);
  const kb::Tensor f = x.to(kb::DType::f32);
  CHECK(f.size(-1) == 8);
  const kb::Tensor i = torch.tensor({0, 7}, {2}, {});
  CHECK(index_select(x, 1, i).shape() == Shape{4, 2});
  const kb::Tensor j = torch.zeros({4, 2});
  CHECK(gather(y, 1, j).to_vector() == Floats{1, 1, 2, 2, 3, 3, 4, 4});
  CHECK(one_hot(i, 8).shape() == Shape{2, 8});
  const kb::Tensor z = torch.ones({3, 3});
  CHECK(tril(z).sum().item() == 6);
  const auto [values, indices] = topk(f, 2);
  CHECK(values.shape() == indices.shape());
  std::ostringstream out;
  out << f;
  for (const kb::Tensor& each : {a, b, c, d}) CHECK(each.numel() > 0);
}

TEST_CASE("what the guide says of types and indices works", "[guide]") {
  OperatorsUnderTest dut;
  kb::RuntimeContext& torch = dut.torch;
  const kb::Tensor ids = torch.tensor({5, 0, 2}, {3}, {.dtype = kb::DType::i64});
  const kb::Tensor n = torch.arange(6).view({2, 3});
  CHECK(n.dtype() == kb::DType::i64);
  CHECK((n / 2 + ids * 1).dtype() == kb::DType::f32);
  const kb::Tensor mask = (n > 1) & ~(n == 4);
  CHECK(mask.any().item<bool>());
  CHECK(((n & 1) == 0).sum().item<int>() == 3);
  CHECK(mask.sum().item<std::int64_t>() == 3);
  CHECK(n.masked_fill(mask, 0).sum().item<std::int64_t>() == 5);
  const kb::Tensor scale = torch.full({1}, 0.3, {.dtype = kb::DType::f8e4m3fn});
  CHECK(scale.to(kb::DType::f32).item() == 0.3125F);
  const auto [sorted, order] = ids.sort();
  CHECK(order.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 0});
  const kb::Tensor w = torch.ones({3}).requires_grad_();
  const auto [most, at_most] = w.max(0);
  CHECK(pow(2, w).to_vector() == Floats{2, 2, 2});
  CHECK(w.detach().clone().exp_().clamp_(0, 2).to_vector() == Floats{2, 2, 2});
  CHECK(at_most.item<int>() == 0);
  CHECK(most.item() == 1);
  const kb::Tensor counts = torch.zeros({6}).scatter_add(0, ids, w);
  CHECK(counts.to_vector() == Floats{1, 0, 1, 0, 0, 1});
  CHECK(nonzero(counts).shape() == Shape{3, 1});
  const auto grads = kb::autograd::grad({counts.sum()}, {w});
  CHECK(grads[0].to_vector() == Floats{1, 1, 1});
  const kb::Tensor one = counts.redistribute(kb::DPPolicy::on_one_pe());
  CHECK(one.shards().size() == 1);
  const kb::InferenceMode guard(torch);
  CHECK_FALSE((w + 1).requires_grad());
}

TEST_CASE("what the guide says of functions works", "[guide]") {
  OperatorsUnderTest dut;
  kb::RuntimeContext& torch = dut.torch;
  const kb::Tensor f = torch.linspace(0, 1, 5);
  const kb::Tensor n = torch.arange(6).view({2, 3});
  const kb::Tensor angles = sin(f) * cos(f) + f.log1p() + f.erf();
  CHECK(angles.isfinite().all().item<bool>());
  CHECK(f.round().sum().item() == 2);
  CHECK((n % 4).sum().item<int>() == 7);
  CHECK(floor_divide(n, 4).sum().item<int>() == 2);
  CHECK(n.at<std::int64_t>({1, 2}) == 5);
  CHECK(f.std(-1).item() > f.var(-1).item());
  CHECK(f.flip({0}).roll(1).at({1}) == 1);
  CHECK(masked_select(n, n > 3).numel() == 2);
  CHECK(f.dot(f).item() == torch.eye(5).mv(f).square().sum().item());
  const kb::Tensor average = torch.zeros({5});
  average.lerp_(f, 0.1).addcmul_(f, f, 0.5);
  CHECK(torch.exp(f).equal(f.exp()));
  const kb::Tensor grid = torch.eye(2);
  grid[0] = 1;
  CHECK(grid.to_vector() == Floats{1, 1, 0, 1});
  CHECK(torch.einsum("ij,kj->ik", {grid, grid}).equal(matmul(grid, grid.t())));
  CHECK(torch.multinomial(grid, 1).at<int>({1, 0}) == 1);
  CHECK(torch.randperm(8).sum().item<int>() == 28);
  CHECK(grid.median().item() == 1);
  const kb::Tensor order = torch.arange(2);
  grid.index_add_(0, order, grid);
  CHECK(grid.sum().item() == 6);
  CHECK(grid.stride(0) == 2);
  CHECK(torch.cat({f, f.to(kb::DType::u8)}).sum().item() == 3.5F);
  const std::vector<std::uint8_t> bytes{0, 1, 255};
  CHECK(torch.from_blob(bytes.data(), {3}).dtype() == kb::DType::u8);
  kb::nn::CrossEntropyLoss criterion;
  CHECK(criterion(torch.eye(3), torch.arange(3)).item() < 1);
}

TEST_CASE("what the guide says of streams works", "[guide]") {
  OperatorsUnderTest dut;
  kb::RuntimeContext& torch = dut.torch;
  const kb::Tensor x = torch.ones({4});
  const auto start = torch.ahbm.Event({.enable_timing = true});
  const auto end = torch.ahbm.Event({.enable_timing = true});
  const auto s = torch.ahbm.Stream();
  start.record();
  kb::Tensor y = x + x;
  s.wait_stream(torch.ahbm.current_stream());
  {
    const auto guard = torch.ahbm.stream(s);
    y.mul_(2);
    end.record();
  }
  torch.ahbm.synchronize();
  CHECK(start.elapsed_time(end) > 0);
  CHECK(y.sum().item() == 16);
}

void shares_its_tokens(kb::RuntimeContext& torch) {
  const auto mesh = torch.distributed.init_device_mesh("local", {1}, {"cp"});
  kb::Tensor x = torch.randn({1, 4, 2});
  const auto whole = x.to_vector();
  kb::experimental::set_rotate_method(torch, "alltoall");
  const auto body = [&] {
    const kb::Tensor y = kb::nn::functional::scaled_dot_product_attention(x, x, x);
    CHECK(y.shape() == x.shape());
  };
  kb::experimental::context_parallel(mesh, {.buffers = {x}, .buffer_seq_dims = {1}}, body);
  CHECK(kb::experimental::context_parallel_unshard(mesh, {x}, {1}).front().to_vector() == whole);
}

kb::Tensor multiply_groups(const kb::Tensor& x, const std::vector<std::int64_t>& sizes,
                           const std::vector<kb::Tensor>& weights) {
  return kb::nn::functional::grouped_mm(x, sizes, weights);
}

void shares_its_experts(kb::RuntimeContext& torch) {
  kb::nn::MoE moe(torch, kb::moe::MoEOptions{.dim = 8, .hidden_dim = 16, .num_experts = 4});
  const kb::Tensor x = torch.randn({6, 8});
  CHECK(moe(x).shape() == x.shape());
  const auto routed = kb::moe::route(torch.randn({6, 4}), {.top_k = 2});
  const auto sent = kb::moe::dispatch(x, routed.topk_idx, routed.topk_weights, 4);
  CHECK(sent.recv_x.size(0) == 6 * 2);
  const std::vector<kb::Tensor> weights(4, torch.zeros({3, 8}));
  const kb::Tensor y = multiply_groups(sent.recv_x, sent.num_recv_tokens_per_expert_list, weights);
  CHECK(kb::moe::combine(y, sent.handle).shape() == kb::Shape{6, 3});
}

TEST_CASE("what the guide says of training works", "[guide]") {
  OperatorsUnderTest dut;
  kb::RuntimeContext& torch = dut.torch;
  namespace F = kb::nn::functional;
  Net net(torch);
  kb::nn::Sequential model(kb::nn::Linear(torch, 8, 16), kb::nn::ReLU(), kb::nn::Dropout(0.1), net);
  kb::optim::AdamW optimizer(net->parameters(), kb::optim::AdamWOptions(1e-3).weight_decay(0.1));
  kb::optim::StepLR scheduler(optimizer, 10, 0.5);
  kb::optim::LinearLR warm_up(optimizer, 0.1, 1, 3);
  kb::optim::CosineAnnealingLR cosine(optimizer, 100);
  kb::optim::SequentialLR both(optimizer, {&warm_up, &cosine}, {3});
  CHECK(std::abs(both.get_last_lr()[0] - 1e-4) < 1e-15);
  optimizer.set_lr(0, 1e-3);
  kb::nn::init::xavier_uniform_(net->fc->weight);
  const kb::Tensor x = torch.randn({4, 8});
  const kb::Tensor target = torch.tensor({0, 1, 2, 3}, {4}, {.dtype = kb::DType::i64});
  for (const auto& [name, parameter] : net->named_parameters()) CHECK(parameter.requires_grad());
  optimizer.zero_grad();
  const kb::Tensor loss = F::cross_entropy(net(x), target);
  loss.backward();
  kb::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
  optimizer.step();
  scheduler.step();
  {
    kb::NoGradGuard no_grad(torch);
    net->fc->bias.mul_(0.5);
  }
  net->fc->weight.register_hook([](const kb::Tensor& g) { return 2 * g; });
  distributed::register_local_backend();
  torch.distributed.init_process_group("local", {.world_size = 1});
  kb::nn::parallel::DistributedDataParallel ddp(net);
  const std::vector<float> whole = net(x).to_vector();
  CHECK(ddp(x).to_vector() == whole);
  const Net with_norms = kb::nn::SyncBatchNorm::convert_sync_batchnorm(net);
  CHECK(with_norms.ptr() == net.ptr());
  kb::nn::parallel::_set_params_and_buffers_to_ignore_for_model(net, {"fc.bias"});
  const kb::distributed::ProcessGroup group;
  auto local_sgd = std::make_shared<kb::nn::parallel::PostLocalSGDState>(group, group, 100);
  kb::nn::parallel::PostLocalSGDOptimizer opt(optimizer,
                                              kb::nn::parallel::PeriodicModelAverager(4, 100));
  CHECK((opt.averager.step == 0 && local_sgd->iter == 0));
  const auto state = std::make_shared<kb::nn::parallel::PowerSGDState>();
  ddp->register_comm_hook(state, kb::nn::parallel::powerSGD_hook);
  model->eval();
  const Net other(torch);
  other->load_state_dict(net->state_dict());
  CHECK(other->fc->weight.to_vector() == net->fc->weight.to_vector());
  const Net& block = other;
  const int rank = 0;
  const int world_size = 1;
  const auto loss_fn = [](const kb::Tensor& y, const kb::Tensor& t) { return F::mse_loss(y, t); };
  kb::distributed::pipelining::PipelineStage stage(torch, block, rank, world_size);
  kb::distributed::pipelining::Schedule1F1B schedule(stage, 8, loss_fn);
  schedule.step(torch.randn({8, 8}), {.target = torch.randn({8, 4})});
  CHECK(other->fc->weight.grad().defined());
  shares_its_tokens(torch);
  shares_its_experts(torch);
  kb::distributed::fsdp::fully_shard(net);
  CHECK(net(x).to_vector() == whole);
}

TEST_CASE("what the guide says of larger models works", "[guide]") {
  OperatorsUnderTest dut;
  kb::RuntimeContext& torch = dut.torch;
  namespace F = kb::nn::functional;
  Net net(torch);
  net->to(kb::DType::bf16);
  net->to("ahbm:1");
  const kb::nn::Module::ForwardHook watch = [](auto&, auto&, auto&) { return kb::Tensor(); };
  net->register_forward_hook(watch);
  kb::nn::ModuleDict<kb::nn::Linear> heads;
  heads->insert("a", kb::nn::Linear(torch, 8, 4));
  const kb::nn::Sequential images(kb::nn::Conv2d(torch, kb::nn::Conv2dOptions(3, 8, 3).padding(1)),
                                  kb::nn::BatchNorm2d(torch, 8),
                                  kb::nn::MaxPool2d(3, {.stride = 2}));
  CHECK(images(torch.randn({2, 3, 5, 5})).shape() == Shape{2, 8, 2, 2});
  const kb::nn::Sequential copy = images.clone();
  CHECK(copy->state_dict().keys() == images->state_dict().keys());
  const kb::nn::ModuleList layers(kb::nn::Linear(torch, 8, 4), kb::nn::ReLU());
  CHECK(layers[0]->as<kb::nn::Linear>()->weight.shape() == Shape{4, 8});
  CHECK(fmt::format("{}", layers[1]) == "ReLU()");
  const kb::nn::Functional twice([](const kb::Tensor& x) { return x * 2; });
  CHECK(twice(torch.ones({1})).item() == 2);
  kb::optim::RMSprop optimizer(images->parameters(), kb::optim::RMSpropOptions(0.01).momentum(0.9));
  const kb::optim::OneCycleLR cycle(optimizer, {.max_lr = 0.1, .total_steps = 100});
  CHECK(std::abs(cycle.get_last_lr()[0] - 0.004) <= 1e-15);
  const kb::nn::MultiheadAttention mha(torch, 8, 2);
  const kb::Tensor q = torch.randn({1, 2, 4, 8});
  CHECK(F::normalize(q, {.dim = -1}).norm(2, -1).mean().item() > 0.99F);
  const kb::Tensor mask = torch.zeros({4, 4});
  CHECK(q.to("ahbm:1").cpu().is_host());
  CHECK(F::scaled_dot_product_attention(q, q, q, {.attn_mask = mask}).shape() == q.shape());
  const kb::Tensor t = torch.randn({8, 2, 4});
  const kb::Tensor cu = kb::RuntimeContext::tensor({0, 4, 8});
  CHECK(kb::nn::attention::varlen_attn(t, t, t, cu, cu, 4, 4, {.is_causal = true}).dim() == 3);
  const auto f = [](const kb::Tensor& a, const kb::Tensor& b) { return F::silu(a) * b; };
  const auto gate = kb::compile(f);
  CHECK(gate(q, q).to_vector() == f(q, q).to_vector());
  const auto block = [&](const std::vector<kb::Tensor>& in) { return mha(in[0], in[0], in[0]); };
  const kb::Tensor x = torch.randn({4, 1, 8}).requires_grad_();
  const kb::Tensor loss = kb::nn::utils::checkpoint(block, {x}).sum();
  kb::optim::GradScaler scaler;
  scaler.scale(loss).backward();
  kb::optim::Float16OptimizerWithFloat16Params mixed(
      torch, std::make_unique<kb::optim::AdamW>(net->parameters(), 1e-3));
  const std::string path = std::filesystem::temp_directory_path() / "kernbench_guide.npz";
  kb::nn::save(net->state_dict(), path);
  net->load_state_dict(kb::nn::load(path).tensors);
  std::filesystem::remove(path);
  CHECK(kb::nn::utils::checkpoint_sequential({kb::nn::ReLU(), kb::nn::GELU()}, 2, x).dim() == 3);
  CHECK(torch.ahbm.max_memory_allocated() > 0);
  CHECK(torch.ahbm.memory_stats().peak[kb::MemoryKind::parameter] > 0);
  CHECK(torch.ahbm.mem_get_info().first > 0);
  CHECK(loss.grad_fn() == "<SumBackward0>");
  CHECK(net->fc->weight.to(torch.device("ahbm", 1)).device() == 1);
  const kb::Tensor state = torch.get_rng_state();
  torch.set_rng_state(state);
  torch.set_default_dtype(kb::DType::f16);
  CHECK(torch.zeros({1}).dtype() == kb::DType::f16);
}

TEST_CASE("what the guide says of data and groups works", "[guide]") {
  LocalWorld world(2);
  kb::RuntimeContext& torch = world.torch;
  kb::distributed::HashStore store(torch);
  const kb::Tensor rows = kb::RuntimeContext::tensor({{1, 2}, {3, 4}, {5, 6}});
  const kb::utils::data::TensorDataset data(rows, rows);
  world.spawn([&](int rank) {
    kb::utils::data::DistributedSampler sampler(torch, data);
    kb::utils::data::DataLoader loader(torch, data, {.batch_size = 4, .sampler = &sampler});
    for (const auto& [input, target] : loader) {
      CHECK(input.shape() == Shape{2, 2});
      CHECK(input.to_vector() == target.to_vector());
    }
    const kb::Tensor a = world.tensor({1});
    const kb::Tensor b = world.tensor({2, 3});
    torch.distributed.all_reduce_coalesced({a, b});
    CHECK(b.to_vector() == std::vector<float>{4, 6});
    const auto work = torch.distributed.all_reduce(a, {.async_op = true});
    const auto twice = [](const kb::Tensor& sum) { return sum * 2; };
    CHECK(work.get_future().then(twice).wait().item() == 8);
    CHECK(torch.distributed._get_default_group().rank() == rank);
    store.add("ranks", 1);
  });
  CHECK(store.get("ranks") == "2");
}

// The code in the third column of a guide's tables.
std::vector<std::string> code_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> codes;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    const std::size_t second = line.find("| `", 2);
    const std::size_t end = line.find("` |", second);
    codes.push_back(line.substr(second + 3, end - second - 3));
  }
  return codes;
}

TEST_CASE("guides show the programs that are built against an installed copy", "[guide]") {
  const auto to_text = [](const std::string& path) {
    std::ifstream file(std::string(KERNBENCH_ROOT) + path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const std::vector<std::pair<std::string, std::string>> kShownIn = {
      {"worker", "/README.md"},
      {"train_gpt", "/training-a-model.md"},
      {"my_bench", "/benches/README.md"},
      {"sum_test", "/README.md"}};
  for (const auto& [name, page] : kShownIn) {
    CAPTURE(name, page);
    const std::string shown = "```cpp\n" + to_text("/test/installed/" + name + ".cpp") + "```\n";
    CHECK(to_text(page).find(shown) != std::string::npos);
  }
}

TEST_CASE("each row of the guide is compiled", "[guide]") {
  const std::string root = KERNBENCH_ROOT;
  std::ifstream file(root + "/test/runtime/torch/from_pytorch_test.cpp");
  std::stringstream source;
  source << file.rdbuf();
  const std::vector<std::string> codes = code_of(root + "/from-pytorch.md");
  CHECK(codes.size() >= 25);
  CHECK(code_of(root + "/from-pytorch.ko.md") == codes);
  for (const std::string& code : codes) {
    INFO(code);
    CHECK(source.str().find(code) != std::string::npos);
  }
}

}  // namespace
}  // namespace kernbench::test::from_pytorch_test
