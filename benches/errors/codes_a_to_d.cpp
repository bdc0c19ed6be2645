#include <array>

#include "benches/errors/error_tables.h"

namespace kernbench::benches::errors {

namespace {

constexpr std::array kACodes = std::to_array<ErrorCode>({
    {"KB-A001", ExitCode::collective_misuse,
     "A gradient is asked of a tensor, or with respect to one, that requires none, or of no tensor "
     "at all.",
     "Compute the output, with gradients enabled, from a tensor that `requires_grad_()`."},
    {"KB-A002", ExitCode::collective_misuse,
     "`requires_grad_()` is called on a host tensor or one of integers, or with false on one that "
     "was computed.",
     "Call it on a leaf of a floating type on a device; of a computed tensor take `detach()`."},
    {"KB-A003", ExitCode::collective_misuse,
     "`backward()` of several elements has no gradient to begin with, or `grad()` has another "
     "number of gradients than of outputs.",
     "Call `sum()` first, or give one gradient of its shape for each output."},
    {"KB-A004", ExitCode::collective_misuse,
     "The graph of an output is walked a second time, after its saved tensors were freed.",
     "Compute the output again, or set `retain_graph` in the first pass."},
    {"KB-A005", ExitCode::collective_misuse,
     "A tensor that the backward pass needs was written after the forward pass used it.",
     "Write it before its use or after `backward()`, or use a `clone()` of it."},
    {"KB-A006", ExitCode::collective_misuse,
     "A gradient has another shape, type or placement than its tensor, or a `Backward` returns "
     "another number of gradients than it has inputs.",
     "Return a gradient for each input, and make each, also one that is assigned, like its "
     "tensor."},
    {"KB-A007", ExitCode::collective_misuse,
     "A `Backward` has written into a gradient that others use too.",
     "Write into `autograd::writable(gradient)`, and return that."},
    {"KB-A008", ExitCode::collective_misuse,
     "An operation in place would be recorded, and writes into a leaf that requires a gradient, or "
     "into a shard.",
     "Write while a `NoGradGuard` lives, or into the tensor's `detach()`."},
    {"KB-A009", ExitCode::collective_misuse,
     "A view that was made without gradients is written while gradients are recorded.",
     "Make the view and write into it both while a `NoGradGuard` lives, or both without one."},
    {"KB-A010", ExitCode::collective_misuse,
     "A module cannot be made, registered, found, cloned or called as it is asked to: a name, a "
     "size, an index or a handle is wrong.",
     "Give what the message wants: a free name without a dot, a module that is constructed, an "
     "index below the size, sizes that divide."},
    {"KB-A011", ExitCode::collective_misuse,
     "A state does not fit the module that loads it: names or shapes differ, or shards are of "
     "other ranks.",
     "Load the state of a module of the same structure; of a sharded one each rank its own, or all "
     "the whole with `full_state_dict`."},
    {"KB-A012", ExitCode::collective_misuse,
     "Parameters, options, rates, milestones or a state are not what an optimizer or a schedule "
     "takes.",
     "Give what the message wants; a state is one of an optimizer of the same kind and "
     "parameters."},
    {"KB-A013", ExitCode::collective_misuse,
     "The norm of the gradients is not finite, and `error_if_nonfinite` is set.",
     "Find the step whose loss is inf or nan, or leave `error_if_nonfinite` out."},
    {"KB-A014", ExitCode::collective_misuse,
     "A hook or `retain_grad()` is asked of a tensor that gets no gradient or is no leaf, or a "
     "hook is removed that is not there.",
     "Call `requires_grad_()` first, take `register_hook()` of computed tensors, and remove a hook "
     "once."},
    {"KB-A015", ExitCode::collective_misuse,
     "`DistributedDataParallel`, or a hook of it, is set up wrongly: modules differ between ranks, "
     "nothing requires a gradient, a rank is outside of the group, or an option is out of range.",
     "Make the same module with the same frozen parameters on all ranks of the group, and register "
     "one hook."},
    {"KB-A016", ExitCode::collective_misuse,
     "The gradients of a pass are not those that `DistributedDataParallel` waits for: a parameter "
     "got none or two, the graph changed, or a rank has no more inputs.",
     "Use each parameter once in a pass, or set `find_unused_parameters`; give all ranks equally "
     "many inputs."},
    {"KB-A018", ExitCode::collective_misuse,
     "`GradScaler` is used in the wrong order, or with factors, gradients or a state that it does "
     "not take.",
     "Call `scale`, `unscale_` if at all, `step` and `update` once each in a step, in this order; "
     "gradients are not f16."},
    {"KB-A019", ExitCode::collective_misuse,
     "Elements are used that `fully_shard` has freed, or a sharded module returns something else "
     "than a tensor.",
     "Call the module by its handle, or `unshard()` it, before its parameters are used; let it "
     "return one tensor."},
    {"KB-A020", ExitCode::collective_misuse,
     "`fully_shard` is given a module, a mesh, a parameter or an option that it does not take.",
     "Shard from the inside out, each module once, the same on all ranks; its parameters have one "
     "type, lie on the same PEs, whole or cut by rows, and are no views."},
    {"KB-A021", ExitCode::collective_misuse,
     "The root of `fully_shard` is no single module, or an inner module ran before its root.",
     "Call `fully_shard` with one outermost module, and run forward through that one first."},
    {"KB-A025", ExitCode::collective_misuse,
     "`grad()` is asked for derivatives of derivatives (`create_graph`), which are not recorded.",
     "Write the first derivative as an expression of your own, and call `grad()` of that."},
    {"KB-A026", ExitCode::collective_misuse,
     "An input of `grad()` is not part of what the output was computed from.",
     "Leave that input out, or set `allow_unused`."},
    {"KB-A030", ExitCode::collective_misuse,
     "A `Function` marks tensors as written that are no arguments or no results of it, or writes "
     "into a view beside other results.",
     "Mark arguments only, return each of them, and write into a view only where it is the one "
     "result."},
    {"KB-A031", ExitCode::collective_misuse,
     "`checkpoint()` was asked for the gradients of some tensors alone, but gives its parameters "
     "theirs.",
     "Call `backward()` instead of `autograd::grad()`; in a pipeline take a schedule with whole "
     "backwards."},
    {"KB-A032", ExitCode::collective_misuse,
     "The tensors at the peak of a device's memory are asked for, and no history of memory is "
     "kept.",
     "Call `torch.ahbm.record_memory_history()` first, or set `RuntimeOptions::profile`."},
    {"KB-A033", ExitCode::collective_misuse,
     "A checkpoint is asked for what it cannot do: to keep an operator's result that cannot be "
     "kept, more segments than functions, or a budget into which no choice of layers fits.",
     "Do what the message says is possible."},
    {"KB-A034", ExitCode::collective_misuse,
     "A selective checkpoint's function, called again by `backward()`, calls other operators, or "
     "with inputs of other shapes, types or placements, than in the forward pass.",
     "Let the function do the same both times: call `backward()` under the settings of the forward "
     "pass, such as `context_parallel()`."},
});

constexpr std::array kBCodes = std::to_array<ErrorCode>({
    {"KB-B001", ExitCode::worker_failed,
     "A bench has made no context, or nothing ran on those that it made.",
     "Run something on a context of `bench.make_context()`; a bench whose results may all be saved "
     "ones calls `bench.submit_sentinel()`."},
    {"KB-B002", ExitCode::configuration,
     "A process simulates a sweep of the same name with other inputs.",
     "Start every process with the same build of the program and the same files."},
    {"KB-B003", ExitCode::worker_failed,
     "A check of a bench failed: the line names the row, and what is wrong in it.",
     "Run that row's settings alone, with `--explain` or `--trace`, to look into it."},
    {"KB-B004", ExitCode::worker_failed, "The process that simulated a point of a sweep was ended.",
     "Run it with `--jobs 1`, under a debugger if need be; finished points are kept where the "
     "message says."},
});

constexpr std::array kCCodes = std::to_array<ErrorCode>({
    {"KB-C001", ExitCode::collective_misuse,
     "Ranks made different calls, or the same one with other shapes, types, sizes, reductions or "
     "roots.",
     "Let all ranks of the group make the same calls in the same order; the message has both."},
    {"KB-C002", ExitCode::collective_misuse,
     "A rank waits in a collective or a message for one that has returned or was never started.",
     "Let every rank of the group call it before it returns, and start as many ranks as the group "
     "has."},
    {"KB-C006", ExitCode::collective_misuse,
     "A rank calls a collective of a default group that it is no member of.",
     "Start no more ranks than the group has; where ranks are PEs (`world_size` in ccl.yaml), call "
     "outside of `spawn()`."},
    {"KB-C010", ExitCode::collective_misuse,
     "Another rank waits for a `Work`, or, as a warning, nobody did before its rank ended.",
     "Let the rank that made the call `wait()` for its `Work`.", "21, or a warning"},
    {"KB-C011", ExitCode::collective_misuse,
     "Two ranks brought tensors of one device to a collective.",
     "Call `torch.ahbm.set_device(rank)` before making tensors."},
    {"KB-C012", ExitCode::collective_misuse,
     "The algorithm that is chosen is for another collective than the one that is called or "
     "measured.",
     "Choose another one, of those that `kernbench list` shows, or leave the choice out."},
    {"KB-C013", ExitCode::collective_misuse,
     "A collective cannot take a tensor as it lies: on those PEs, over several SIPs, with elements "
     "apart, or as a part of a sum.",
     "Make it with the `DPPolicy` that the message names, or `copy_` it into a tensor of its own."},
    {"KB-C014", ExitCode::collective_misuse,
     "An all_reduce took less time than any algorithm needs, so it cannot have moved all values.",
     "Let your algorithm bring the values of every rank to all others; of a shipped one it is a "
     "bug to report."},
    {"KB-C015", ExitCode::collective_misuse,
     "A rank uses a group on, in which a call of it was refused.",
     "Let the first error end the rank: that one is to be mended."},
    {"KB-C020", ExitCode::collective_misuse,
     "An argument of `torch.distributed`, a mesh, a store, a sampler or a loader of data is wrong, "
     "in PyTorch's words.",
     "Give what the message wants; it is what PyTorch wants there too."},
    {"KB-C021", ExitCode::collective_misuse,
     "A rank did not come to `monitored_barrier`: it has returned or was never started.",
     "Let every rank of the group call it before it returns; the message names who is missing."},
    {"KB-C022", ExitCode::collective_misuse,
     "A message is longer than its receive has room, or of another type.",
     "Receive into a tensor of the sender's type that has at least as many elements."},
    {"KB-C023", ExitCode::collective_misuse,
     "The call works between SIPs only, and ranks are PEs here.",
     "Take `world_size` out of ccl.yaml."},
    {"KB-C024", ExitCode::collective_misuse,
     "A stage, a schedule or a batch of a pipeline is wrong, in torch.distributed.pipelining's "
     "words where it has any.",
     "Give what the message wants: a stage each, or several, on every rank; F and B, or F, I and "
     "W, of each micro-batch once on each stage; a batch that the micro-batches divide."},
    {"KB-C025", ExitCode::collective_misuse,
     "Context parallelism cannot share these tokens or heads, or does not have what attention asks "
     "for.",
     "Give tokens that the ranks' chunks divide, heads that the ranks divide for Ulysses, and no "
     "dropout and no mask but is_causal."},
    {"KB-C026", ExitCode::collective_misuse,
     "RuntimeOptions::fold lets a rank stand for others, which do something else: a root's part, a "
     "message, blocks of unequal sizes, other steps of an algorithm.",
     "Leave `fold` out, or try the period 2; the benches of kernbench do so by themselves, and "
     "`--fold exact` leaves out ranks that are only nearly alike."},
    {"KB-C027", ExitCode::collective_misuse,
     "Reproducible::batch, or KERNBENCH_BATCH_INVARIANT=1, wants sums whose order does not depend "
     "on where an element lies, and Reproducible::pairs, or KERNBENCH_WORLD_INVARIANT=1, ranks "
     "that are added in pairs; ccl.yaml names an algorithm that adds in another order.",
     "Name one of those that the message lists, or none; a machine that has a table of its own "
     "takes another one by --ccl."},
    {"KB-C028", ExitCode::collective_misuse,
     "A rank has died by a fault with `detected`, or shrink_group() has aborted the group: nothing "
     "can run in its groups any more.",
     "Catch DistBackendError, and go on in the group that shrink_group(error.ranks()) makes."},
    {"KB-C029", ExitCode::collective_misuse,
     "Expert parallelism is called on a rank outside of its group, or is given experts that the "
     "ranks do not divide, more choices than experts, a capacity below 1, rows that do not fit, or "
     "a load or trace that is none.",
     "Give what the message wants; of a trace it names the line."},
});

constexpr std::array kDCodes = std::to_array<ErrorCode>({
    {"KB-D001", ExitCode::deadlock, "Nothing can happen any more, and ranks or kernels still wait.",
     "Look in the message what each one waits for: a receive without its send, a collective that a "
     "rank does not call, or a circle."},
    {"KB-D002", ExitCode::deadlock,
     "A rank or a kernel makes no progress: it polls, repeats a refused collective, or issues "
     "commands without an end.",
     "Call `wait()` instead of asking, and do not retry after an error; for a kernel that has an "
     "end raise `RuntimeOptions::command_limit`."},
    {"KB-D003", ExitCode::deadlock,
     "A kernel computed on the host for longer than its limit, without yielding.",
     "End its loop, which a debugger finds; if it only needs longer, raise "
     "`RuntimeOptions::kernel_time_limit`."},
    {"KB-D004", ExitCode::deadlock,
     "A rank ran for long without waiting for anything: first a warning, an error at its limit.",
     "End its loop: others run only while it waits in a call of torch; if it only needs longer, "
     "raise `RuntimeOptions::rank_time_limit`.",
     "20, or a warning"},
    {"KB-D005", ExitCode::deadlock,
     "The lists of actions of a pipeline schedule would hang: ranks wait in a circle. Nothing of "
     "it was run.",
     "Move one of the actions that the message names to before the other of its rank."},
});

constexpr std::array<ErrorFamily, 4> kA_to_d = {{
    {'A', "autograd, modules, optimizers, gradients over ranks", kACodes},
    {'B', "benches and sweeps", kBCodes},
    {'C', "collectives, messages, process groups, samplers", kCCodes},
    {'D', "deadlocks, and what does not end", kDCodes},
}};

}  // namespace

std::span<const ErrorFamily> families_a_to_d() {
  return kA_to_d;
}

}  // namespace kernbench::benches::errors
