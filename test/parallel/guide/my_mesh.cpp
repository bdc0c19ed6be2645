// The program of the guide from-one-device-to-a-mesh.md: every piece between two markers stands in
// it, word for word.

// guide: begin
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kernbench/kernbench.h>

namespace kb = kernbench;
namespace F = kb::nn::functional;
namespace tp = kernbench::tp;
namespace pipelining = kb::distributed::pipelining;

constexpr std::int64_t batch = 8, seq = 32, hidden = 32, heads = 4, ffn = 128;
constexpr int stages = 2, microbatches = 4, steps = 3;

// Numbers that depend on the place in the whole tensor alone, so that all layouts begin alike.
std::vector<float> numbers(std::int64_t count, std::int64_t k) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < count; ++i) {
    all.push_back(static_cast<float>((i * k + i / 5 + 3 * k) % 33 - 16) / 128);
  }
  return all;
}
// guide: end

// guide: begin
// Attention and an MLP by Megatron's layers, whose weights are cut over the ranks of `tp`.
struct BlockImpl : kb::nn::Module {
  BlockImpl(kb::RuntimeContext& torch, const kb::distributed::ProcessGroup& group, std::int64_t k)
      : query(torch, column(hidden, k, group)),
        key(torch, column(hidden, k + 1, group)),
        value(torch, column(hidden, k + 2, group)),
        out(torch, row(hidden, k + 3, group)),
        up(torch, column(ffn, k + 4, group)),
        down(torch, row(ffn, k + 5, group)) {
    register_module("query", query);
    register_module("key", key);
    register_module("value", value);
    register_module("out", out);
    register_module("up", up);
    register_module("down", down);
  }

  // [samples, tokens, hidden]; the tokens are the rank's part of the sequence.
  kb::Tensor forward(const kb::Tensor& x) const {
    const auto by_head = [&](const kb::Tensor& y) {
      const kb::Tensor split = kb::reshape(y, {x.size(0), x.size(1), -1, hidden / heads});
      return kb::contiguous(kb::transpose(split, 1, 2));
    };
    const kb::Tensor seen = F::scaled_dot_product_attention(
        by_head(query(x)), by_head(key(x)), by_head(value(x)), {.is_causal = true});
    const kb::Tensor joined = kb::contiguous(kb::transpose(seen, 1, 2));
    const kb::Tensor y = x + out(kb::reshape(joined, {x.size(0), x.size(1), -1}));
    return y + down(F::gelu(up(y)));
  }

  static tp::InitMethod init(std::int64_t k) {
    return tp::InitMethod([k](const kb::Shape& shape, tp::Generator&) {
      return numbers(shape.numel(), 2 * k + 5);
    });
  }
  static tp::ColumnParallelLinearOptions column(std::int64_t features, std::int64_t k,
                                                const kb::distributed::ProcessGroup& group) {
    return {.in_features = hidden,
            .out_features = features,
            .init_method = init(k),
            .dtype = kb::DType::f32,
            .tp_group = group};
  }
  static tp::RowParallelLinearOptions row(std::int64_t features, std::int64_t k,
                                          const kb::distributed::ProcessGroup& group) {
    return {.in_features = features,
            .out_features = hidden,
            .init_method = init(k),
            .dtype = kb::DType::f32,
            .tp_group = group};
  }

  tp::ColumnParallelLinear query, key, value;
  tp::RowParallelLinear out;
  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;
};
KERNBENCH_MODULE(Block);
// guide: end

// guide: begin
struct Layout {
  int pp = 1, dp = 1, cp = 1, tp = 1;
  int ranks() const { return pp * dp * cp * tp; }
};

// The rank's samples of the batch.
kb::Tensor samples(kb::RuntimeContext& torch, const kb::distributed::DeviceMesh& mesh,
                   std::int64_t k) {
  const std::int64_t rows = batch / mesh["dp_shard"].size();
  const std::vector<float> all = numbers(batch * seq * hidden, k);
  const std::int64_t count = rows * seq * hidden;
  const auto first = all.begin() + mesh.get_local_rank("dp_shard") * count;
  return torch.tensor(std::vector<float>(first, first + count), {rows, seq, hidden},
                      {.dp = kb::DPPolicy::on_one_pe()});
}
// guide: end

// guide: begin
std::vector<double> train(kb::RuntimeContext& torch, const Layout& layout) {
  const auto mesh = torch.distributed.init_device_mesh(
      "ahbm", {layout.pp, layout.dp, layout.cp, layout.tp}, {"pp", "dp_shard", "cp", "tp"});
  const auto shards = mesh[{"dp_shard", "cp"}]._flatten("fsdp");
  std::vector<pipelining::PipelineStage> own_stages;
  std::vector<kb::Tensor> parameters;
  for (int stage = mesh.get_local_rank("pp"); stage < stages; stage += layout.pp) {
    Block block(torch, mesh.get_group("tp"), 6 * stage);
    kb::distributed::fsdp::fully_shard(block, {.mesh = shards});
    for (const kb::Tensor& parameter : block->parameters()) parameters.push_back(parameter);
    own_stages.emplace_back(torch, block, stage, stages,
                            pipelining::PipelineStageOptions{.group = mesh.get_group("pp")});
  }
  const auto size = pipelining::PipelineSize{stages, layout.pp, microbatches};
  pipelining::PipelineScheduleRuntime schedule(
      own_stages, microbatches,
      [](const kb::Tensor& y, const kb::Tensor& target) { return F::mse_loss(y, target); },
      layout.pp == stages ? pipelining::one_f_one_b(size) : pipelining::looped_bfs(size));
  kb::optim::SGD optimizer(parameters, 5);

  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    kb::Tensor x = samples(torch, mesh, 13), target = samples(torch, mesh, 19);
    std::vector<kb::Tensor> own;
    kb::experimental::context_parallel(
        mesh["cp"], {.buffers = {x, target}, .buffer_seq_dims = {1, 1}},
        [&] { schedule.step(x, {.target = target, .losses = &own}); });
    optimizer.step();
    optimizer.zero_grad();
    double sum = 0;  // of the rank's micro-batches, where the last stage is
    for (const kb::Tensor& loss : own) sum += loss.item<double>();
    const kb::Tensor total = torch.tensor({static_cast<float>(sum)}, {1},
                                          {.dp = kb::DPPolicy::on_one_pe()});
    torch.distributed.all_reduce(total);
    losses.push_back(total.item<double>() /
                     (microbatches * layout.dp * layout.cp * layout.tp));
  }
  return losses;
}
// guide: end

// guide: begin
void run(const kb::Topology& machine, const Layout& layout) {
  kb::RuntimeContext torch{machine};
  torch.distributed.init_process_group("ahbm", {.world_size = layout.ranks()});
  torch.multiprocessing.spawn(
      [&](int rank) {
        torch.ahbm.set_device(rank);
        const std::vector<double> losses = train(torch, layout);
        if (rank > 0) return;
        torch.ahbm.synchronize();
        fmt::print("pp {} dp {} cp {} tp {}: losses {:.6f}, {:.1f} us, {} B\n", layout.pp,
                   layout.dp, layout.cp, layout.tp, fmt::join(losses, " "),
                   torch.engine().now_ns() / 1000, torch.ahbm.max_memory_allocated());
      },
      {}, layout.ranks());
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} TOPOLOGY\n", argv[0]);
    return 2;
  }
  const kb::Topology machine = kb::with_sips(kb::Topology::load(argv[1]), 16);
  run(machine, {});
  run(machine, {.tp = 2});
  run(machine, {.dp = 2});
  run(machine, {.cp = 2});
  run(machine, {.pp = 2});
  run(machine, {.dp = 2, .tp = 2});
  run(machine, {.pp = 2, .dp = 2, .cp = 2, .tp = 2});
}
// guide: end
