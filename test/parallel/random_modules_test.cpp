// Ranks that train random models with random hooks in a random way learn, bit for bit, what one
// rank does with the whole batch and no wrapper.

#include <fmt/format.h>

#include "runtime/optim/optimizer.h"
#include "runtime/parallel/fully_shard.h"
#include "test/parallel/random_module.h"
#include "test/support/sanitized.h"
#include "tp/parallel_state.h"

namespace kernbench::test::random_modules {
namespace {

using distributed::fsdp::FSDPModule;
using distributed::fsdp::fully_shard;
using nn::parallel::DistributedDataParallel;
using nn::parallel::Future;
using nn::parallel::GradBucket;

// Losses, summed over ranks and passes, and the weights in the end.
struct Learned {
  std::vector<double> losses;
  Floats weights;
};

Floats weights_of(const nn::Module& net) {
  Floats all;
  const nn::StateDict whole =
      distributed::checkpoint::get_model_state_dict(net, {.full_state_dict = true});
  for (const auto& item : whole) {
    if (is_of_tensor_parallel_layer(item.key())) continue;  // the next loss depends on it
    const Floats own = item.value().to_vector();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

// One rank, all rows, and no wrapper: in one pass, unless some rows use the spare branch and some
// do not.
Learned learn_alone(const Program& program) {
  DataParallelWorld world(1, "local");
  Learned learned;
  learned.losses.resize(static_cast<std::size_t>(program.steps));
  world.spawn([&](int) {
    const Net net = make_net(world, program, 1);
    optim::SGD optimizer(net->parameters(), kRate);
    for (int step = 0; step < program.steps; ++step) {
      const auto learn = [&](std::int64_t first, std::int64_t count, bool uses_spare) {
        const Batch rows = batch(world, program, first, count);
        const Tensor loss = (net(rows.x, uses_spare) * rows.y).sum();
        loss.backward();
        learned.losses[static_cast<std::size_t>(step)] += loss.item<double>();
      };
      const int pieces = program.passes * program.ranks;
      if (program.spare == Spare::at_random) {
        for (int i = 0; i < pieces; ++i) {
          learn(i * program.rows, program.rows,
                program.uses_spare(step, i / program.ranks, i % program.ranks));
        }
      } else {
        learn(0, pieces * program.rows, program.spare == Spare::always);
      }
      optimizer.step();
      optimizer.zero_grad();
    }
    learned.weights = weights_of(*net);
  });
  return learned;
}

// A net as a scheme of data parallelism has wrapped it.
struct Wrapped {
  std::function<Tensor(const Tensor& x, bool uses_spare)> call;
  std::function<void(const std::function<void()>& pass)> without_sync;
  std::function<void()> update;
  std::function<void()> finish = [] {};
};

Wrapped wrap_ddp(DataParallelWorld& world, const Program& program, const Net& net) {
  auto options = program.ddp;
  if (program.has_parallel_state()) {
    options.process_group = tp::get_data_parallel_group(world.torch);
  } else if (program.groups > 1) {
    options.process_group = world.torch.distributed.new_subgroups(program.ranks).first;
  }
  DistributedDataParallel ddp(net, options);
  const distributed::ProcessGroup group = options.process_group;
  if (program.comm_hook == CommHook::of_torch) {
    ddp->register_comm_hook(group, nn::parallel::allreduce_hook);
  } else if (program.comm_hook == CommHook::own) {
    ddp->register_comm_hook(program.ranks, [group](int ranks, GradBucket& bucket) {
      bucket.set_buffer(bucket.buffer() * 2);
      auto work = bucket.torch().distributed.all_reduce(bucket.buffer(),
                                                        {.group = group, .async_op = true});
      return Future(work, bucket.buffer()).then([ranks](const Tensor& sum) {
        return sum / (2 * ranks);
      });
    });
  }
  auto optimizer = std::make_shared<optim::SGD>(ddp->parameters(), kRate);
  return {.call = [ddp](const Tensor& x, bool uses_spare) { return ddp(x, uses_spare); },
          .without_sync =
              [ddp](const std::function<void()>& pass) {
                const auto guard = ddp->no_sync();
                pass();
              },
          .update =
              [optimizer] {
                optimizer->step();
                optimizer->zero_grad();
              }};
}

Wrapped wrap_zero1(DataParallelWorld& world, const Program& program, const Net& net) {
  tp::DistributedDataParallel model(world.torch, program.zero1, net);
  const auto sgd = [](std::vector<Tensor> shards) {
    return std::make_unique<optim::SGD>(std::move(shards), kRate);
  };
  auto optimizer = std::make_shared<tp::MegatronOptimizer>(world.torch, model->buckets(), sgd);
  return {.call = [model](const Tensor& x, bool uses_spare) { return model(x, uses_spare); },
          .without_sync =
              [model](const std::function<void()>& pass) {
                const auto guard = model->no_sync();
                pass();
              },
          .update =
              [model, optimizer] {
                tp::finalize_model_grads(model);
                optimizer->step();
                model->zero_grad_buffer();
              },
          .finish = [model] { model->finish_param_sync(); }};
}

// Layers that follow each other share a group, have one of their own, or stay in the root's.
FSDPModule shard(DataParallelWorld& world, const Program& program, const Net& net) {
  Random random(program.seed);  // all ranks draw the same
  distributed::fsdp::FullyShardOptions options;
  if (program.hsdp) {
    options.mesh = world.torch.distributed.init_device_mesh("ahbm", {2, 2}, {"across", "within"});
  } else if (program.has_parallel_state()) {
    options.mesh = world.torch.distributed.init_device_mesh("ahbm", {program.ranks, program.groups},
                                                            {"dp", "tp"})["dp"];
  } else if (program.groups > 1) {
    options.mesh = world.torch.distributed.init_device_mesh("ahbm", {program.groups, program.ranks},
                                                            {"apart", "together"})["together"];
  }
  if (program.is_mixed) {
    options.mp_policy = {.param_dtype = DType::f16, .reduce_dtype = DType::f32};
  }
  const int keepers = program.ranks == 4 && !program.hsdp ? 2 : 1;
  const auto draw = [&] {
    options.reshard_after_forward = one_of<std::optional<distributed::fsdp::ReshardAfterForward>>(
        random, {{}, true, false, keepers});
    return options;
  };
  std::vector<std::shared_ptr<nn::Module>> group;
  for (const auto& layer : net->layers->children()) {
    if (layer->parameters().empty()) continue;
    group.push_back(layer);
    if (coin(random)) continue;
    if (coin(random)) fully_shard(group, draw());
    group.clear();
  }
  if (net->spare && coin(random)) fully_shard(net->spare, draw());
  if (program.is_mixed) options.mp_policy.output_dtype = DType::f32;
  return fully_shard(net, draw());
}

Wrapped wrap_fully_shard(DataParallelWorld& world, const Program& program, const Net& net) {
  const FSDPModule fsdp = shard(world, program, net);
  auto optimizer = std::make_shared<optim::SGD>(net->parameters(), kRate);
  return {.call = [net](const Tensor& x, bool uses_spare) { return net(x, uses_spare); },
          .without_sync =
              [fsdp](const std::function<void()>& pass) {
                fsdp.set_requires_gradient_sync(false);
                pass();
                fsdp.set_requires_gradient_sync(true);
              },
          .update =
              [optimizer] {
                optimizer->step();
                optimizer->zero_grad();
              }};
}

Wrapped wrap(DataParallelWorld& world, const Program& program, const Net& net) {
  switch (program.scheme) {
    case Scheme::ddp:
      return wrap_ddp(world, program, net);
    case Scheme::zero1:
      return wrap_zero1(world, program, net);
    case Scheme::fully_shard:
      break;
  }
  return wrap_fully_shard(world, program, net);
}

// How often each parameter's gradient is to be added to: once in each pass that uses it, and a
// shard's once in each that reduces it.
std::vector<int> expected_counts(const Program& program, const Net& net, int rank) {
  if (program.scheme == Scheme::fully_shard) {
    return std::vector(net->parameters().size(), program.steps);
  }
  const int all = program.steps * program.passes;
  std::vector<int> counts(net->layers->parameters().size(), all);
  if (!net->spare) return counts;
  int uses = 0;
  for (int step = 0; step < program.steps; ++step) {
    for (int pass = 0; pass < program.passes; ++pass) {
      uses += program.uses_spare(step, pass, program.place_of(rank)) ? 1 : 0;
    }
  }
  counts.insert(counts.end(), 2, uses);  // weight and bias
  return counts;
}

// Adds to the losses; returns how often hooks saw each parameter's gradient.
std::vector<int> train(DataParallelWorld& world, const Program& program, int rank, const Net& net,
                       std::vector<double>& losses) {
  const Wrapped model = wrap(world, program, net);
  const auto parameters = net->parameters();
  std::vector<int> counts(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].register_post_accumulate_grad_hook(
        [&count = counts[i]](const Tensor&) { ++count; });
  }
  const int place = program.place_of(rank);
  for (int step = 0; step < program.steps; ++step) {
    for (int pass = 0; pass < program.passes; ++pass) {
      const auto learn = [&] {
        const Batch rows =
            batch(world, program, (pass * program.ranks + place) * program.rows, program.rows);
        const Tensor out = model.call(rows.x, program.uses_spare(step, pass, place));
        const Tensor loss = (out * rows.y).sum() * program.ranks;  // of which ranks take the mean
        loss.backward();
        if (!program.is_of_first_group(rank)) return;
        losses[static_cast<std::size_t>(step)] += loss.item<double>() / program.ranks;
      };
      if (pass + 1 < program.passes) {
        model.without_sync(learn);
      } else {
        learn();
      }
    }
    model.update();
  }
  model.finish();
  return counts;
}

// Checks also that all ranks end with the same weights.
Learned learn_together(const Program& program) {
  DataParallelWorld world(program.world(), program.backend, program.options);
  Learned learned;
  learned.losses.resize(static_cast<std::size_t>(program.steps));
  std::vector<Floats> weights(static_cast<std::size_t>(program.world()));
  world.spawn([&](int rank) {
    // DDP alone sends rank 0's parameters to the others.
    const bool differs = program.scheme == Scheme::ddp;
    const Net net = make_net(world, program, program.groups,
                             differs ? static_cast<unsigned>(program.place_of(rank)) * 20 : 0);
    const std::vector<int> counts = train(world, program, rank, net, learned.losses);
    CHECK(counts == expected_counts(program, net, rank));
    weights[static_cast<std::size_t>(rank)] = weights_of(*net);
  });
  for (const Floats& each : weights) CHECK(each == weights.front());
  learned.weights = weights.front();
  return learned;
}

std::string to_text(const Program& program) {
  std::string text = fmt::format(
      "{} on {} x {} ranks, {}{}{}{}:", static_cast<int>(program.scheme), program.groups,
      program.ranks, program.backend, program.options.launch_blocking ? ", blocking" : "",
      program.checkpoints ? ", checkpoint" : "", program.is_mixed ? ", f16" : "");
  for (const Layer& layer : program.layers) {
    text += fmt::format(" {}({}, {})", static_cast<int>(layer.kind), layer.in, layer.out);
  }
  return text + fmt::format("; {} passes, spare {}, hook {}", program.passes,
                            static_cast<int>(program.spare), static_cast<int>(program.comm_hook));
}

void check_learns(const Program& program) {
  CAPTURE(program.seed, to_text(program));
  const Learned alone = learn_alone(program);
  // Sums of larger numbers need more bits than f32 has.
  if (std::ranges::max(alone.losses) > 0x1p22 || std::ranges::min(alone.losses) < -0x1p22) return;
  const Learned together = learn_together(program);
  CHECK(together.losses == alone.losses);
  CHECK(together.weights == alone.weights);
}

TEST_CASE("random models learn on several ranks what one rank does", "[ddp][fsdp][random]") {
  for (unsigned seed = 1; seed <= (kIsSanitized ? 8U : 40U); ++seed) {
    check_learns(random_program(seed));
  }
}

// The fault of one rank of an illegal program.
enum class Fault {
  marks_twice,
  skips_a_bucket,
  changes_the_graph,
  other_shapes,
  leaves_early,
  skips_a_backward_pass
};

struct Illegal {
  Program program;
  Fault fault = Fault::marks_twice;
  int guilty = 0;
  int step = 0;  // in which the rank does it
};

Illegal illegal_program(unsigned seed) {
  Random random(seed);
  Illegal illegal;
  illegal.fault = static_cast<Fault>(seed % 6);
  Program& program = illegal.program;
  program.seed = seed;
  program.ranks = 2 + below(random, 3);
  program.steps = 3;
  program.layers = {{.out = 1 + below(random, 6)}};
  program.gradients.assign(kMostParameters, 1);
  program.spare = Spare::always;
  program.ddp.bucket_cap_mb = one_of<double>(random, {0, 0.00002, 25});
  program.ddp.static_graph = illegal.fault == Fault::changes_the_graph;
  program.ddp.find_unused_parameters = illegal.fault == Fault::marks_twice;
  program.zero1 = {.use_distributed_optimizer = true, .bucket_size = 1 + below(random, 60)};
  if (illegal.fault == Fault::other_shapes || illegal.fault == Fault::leaves_early) {
    program.scheme = one_of<Scheme>(random, {Scheme::ddp, Scheme::zero1, Scheme::fully_shard});
  }
  if (illegal.fault == Fault::skips_a_backward_pass) {
    program.scheme = one_of<Scheme>(random, {Scheme::ddp, Scheme::fully_shard});
  }
  program.backend = coin(random) ? "local" : "ahbm";
  program.options.launch_blocking = coin(random);
  illegal.guilty = below(random, program.ranks);
  illegal.step = 1 + below(random, 2);
  return illegal;
}

void run_illegal(DataParallelWorld& world, const Illegal& illegal, int rank) {
  const bool is_guilty = rank == illegal.guilty;
  Program program = illegal.program;
  if (is_guilty && illegal.fault == Fault::other_shapes) ++program.layers.front().out;
  const Net net = make_net(world, program, 1);
  const Wrapped model = wrap(world, program, net);
  for (int step = 0; step < program.steps; ++step) {
    const bool errs = is_guilty && step == illegal.step;
    if (errs && illegal.fault == Fault::leaves_early) return;
    const Tensor x = world.torch.ones({2, kColumns}, kOnOnePe);
    const bool skips = errs && illegal.fault == Fault::skips_a_backward_pass;
    Tensor loss = model.call(x, !errs || skips).sum();
    // The pass has found it unused, and has marked it as ready.
    if (errs && illegal.fault == Fault::marks_twice) loss = loss + net->spare->weight.sum();
    if (!skips) loss.backward();
    model.update();
  }
}

// A bucket that is skipped in the last step is missed by the others, and one before that by the
// rank itself when its next step begins, or with a static graph when backward() ends.
std::string_view code_of(const Illegal& illegal) {
  const Program& program = illegal.program;
  if (illegal.fault == Fault::marks_twice) return "[KB-A016]";
  if (illegal.fault == Fault::changes_the_graph) return "[KB-A016]";
  if (illegal.fault == Fault::leaves_early) return "[KB-C002]";
  if (illegal.fault == Fault::skips_a_backward_pass) return "[KB-C00";  // 1 or 2
  if (illegal.fault != Fault::other_shapes) {
    return illegal.step + 1 < program.steps ? "[KB-A016]" : "[KB-C002]";
  }
  return program.scheme == Scheme::fully_shard ? "[KB-A020]" : "[KB-A015]";
}

TEST_CASE("illegal random programs end with an error that names the rank", "[ddp][fsdp][random]") {
  for (unsigned seed = 1; seed <= (kIsSanitized ? 10U : 40U); ++seed) {
    const Illegal illegal = illegal_program(seed);
    const Program& program = illegal.program;
    CAPTURE(seed, to_text(program), illegal.fault, illegal.guilty, illegal.step);
    DataParallelWorld world(program.ranks, program.backend, program.options);
    const std::string text =
        error_of<Error>([&] { world.spawn([&](int rank) { run_illegal(world, illegal, rank); }); });
    CHECK_THAT(text, Catch::Contains(std::string(code_of(illegal))));
    if (illegal.fault == Fault::other_shapes) continue;  // any rank may be wrong
    CHECK_THAT(text, Catch::Contains(fmt::format("rank {}", illegal.guilty)));
  }
}

TEST_CASE("ten thousand random models", "[.][ddp][long]") {
  for (unsigned seed = 1000; seed < 11000; ++seed) {
    check_learns(random_program(seed));
  }
}

}  // namespace
}  // namespace kernbench::test::random_modules
