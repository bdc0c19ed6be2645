#include <array>
#include <csignal>

#include "benches/errors/error_tables.h"

namespace kernbench::benches::errors {

namespace {

constexpr std::array kNCodes = std::to_array<ErrorCode>({
    {"KB-N010", ExitCode::internal,
     "A library has made the processor flush small numbers to 0 or round otherwise. The code "
     "stands in the text of a KB-X001.",
     "Link nothing that was linked with `-ffast-math`, and set no rounding mode."},
    {"KB-N020", ExitCode::values,
     "A tensor has other values, or another number of them, on two ranks.",
     "Look at the element that the message names: a collective is missing, or ranks draw different "
     "random numbers."},
    {"KB-N030", ExitCode::numerics, "Values of a tensor are not those that an assertion expects.",
     "The message names the element that is off: mend what computes it, or allow more if only "
     "rounding differs."},
    {"KB-N040", ExitCode::numerics, "A provider of an operator computes a wrong value.",
     "The message names the provider, the pass and the element: mend its kernel."},
    {"KB-N041", ExitCode::numerics,
     "An element of an operator's reference is not finite, or there is no bound on its roundings.",
     "Add an eps, or set `has_small_rows` of the inputs to false if tokens that are 0 are none of "
     "the operator's."},
    {"KB-N050", ExitCode::numerics,
     "The condition of `--fail-if` holds for a row, or a row is gone.",
     "Find what has changed in the rows that the message names, or take the new report as the "
     "baseline."},
    {"KB-N060", ExitCode::values,
     "What a program computes, or whether it fails, depends on its schedule: `explore()` or "
     "`exhaustive()` has found one that ends otherwise than the usual one.",
     "The message names the first difference, the choices that lead to it and the line that "
     "repeats it: wait for what is needed, or name the sender."},
    {"KB-N061", ExitCode::values,
     "Two runs of one schedule differ, so the program depends on more than its schedule.",
     "Make in each run what a run changes; take no address, clock or unseeded number into values."},
    {"KB-N062", ExitCode::numerics, "A `KB_SOMETIMES` has held in no run of an exploration.",
     "Vary what leads there, allow more runs, or take the condition away if it cannot hold."},
});

constexpr std::array kOCodes = std::to_array<ErrorCode>({
    {"KB-O001", ExitCode::collective_misuse,
     "An operator's graph joins operands that do not fit, or needs a gradient that is not "
     "supported.",
     "Give operands as the message wants them; an operator has one set of experts and one tensor "
     "of offsets."},
    {"KB-O002", ExitCode::collective_misuse,
     "A case asks for an input, a column or a gradient that there is not.",
     "Use the names and columns that its inputs have, and gradients of those that want one."},
    {"KB-O003", ExitCode::collective_misuse,
     "An operator case is incomplete or contradicts itself: its name, sizes, inputs, results or "
     "providers.",
     "Mend what the message names; `benches/operators/writing-a-case.md` has one to copy."},
    {"KB-O004", ExitCode::collective_misuse,
     "`rows_per_block()` is asked with no scratch for a row.",
     "Give the bytes of all tensors that a row has at once."},
    {"KB-O005", ExitCode::collective_misuse, "A provider writes into an input.",
     "Write results to `output()` and `gradient()`, and what is on its way to `saved()`."},
});

constexpr std::array kQCodes = std::to_array<ErrorCode>({
    {"KB-Q001", ExitCode::device_fault, "A message is put into a queue that is full.",
     "Wait for a credit before, as `tl.send` does."},
    {"KB-Q002", ExitCode::device_fault, "A message is taken out of a queue that is empty.",
     "Wait for a message before, as `tl.recv` does."},
    {"KB-Q003", ExitCode::device_fault,
     "A kernel or a collective left messages in a queue that nobody has received.",
     "Give every `tl.send` its `tl.recv`."},
    {"KB-Q004", ExitCode::device_fault, "A message is larger than a slot of its queue.",
     "Send it in parts, or set a larger `slot` in ccl.yaml."},
    {"KB-Q005", ExitCode::device_fault,
     "A message has another size or type than its receive expects.",
     "Let both ends name the same shapes and types in the same order."},
    {"KB-Q006", ExitCode::device_fault,
     "A PE has no neighbour there, or ranks are not joined as the kernel asks.",
     "Use a port that the message lists, or set `neighbours` in ccl.yaml."},
    {"KB-Q007", ExitCode::device_fault,
     "A kernel ends with receives that it posted and did not wait for.",
     "Give every `tl.recv_async` its `tl.wait`."},
    {"KB-Q008", ExitCode::device_fault,
     "A posted receive is waited for twice, or by another kernel or PE.",
     "Wait for it once, in the kernel that posted it."},
});

constexpr std::array kRCodes = std::to_array<ErrorCode>({
    {"KB-R001", ExitCode::worker_failed, "A worker raised an exception, or nobody caught one.",
     "Mend what the message quotes: it is of the rank that failed first in simulated time.",
     "1, or that of what was raised"},
    {"KB-R002", ExitCode::collective_misuse,
     "A process group, a `Work` or a `Store` is used before it is made or after it is gone, or is "
     "made in a way that does not fit.",
     "Call `init_process_group()` once in each rank and before any collective; use what the calls "
     "returned."},
    {"KB-R003", ExitCode::collective_misuse, "There is no device of that number.",
     "Give one from 0 to below `torch.ahbm.device_count()`."},
    {"KB-R004", ExitCode::collective_misuse,
     "`spawn()` is called in a worker or a kernel or beside other ranks, or ranks are to `join()` "
     "themselves.",
     "Call both where the context was made, and `join()` the ranks of one before the next."},
    {"KB-R005", ExitCode::host_limit,
     "A stack is full: recursion without an end, or large local variables.",
     "End the recursion, and put large variables on the heap; outside of ranks and kernels also "
     "raise `ulimit -s`."},
    {"KB-R006", ExitCode::collective_misuse,
     "A worker or a kernel called `exit`, `quick_exit` or `pthread_exit`.",
     "Let it return, or throw."},
    {"KB-R008", ExitCode::collective_misuse, "A destructor waits while an exception propagates.",
     "Wait before the scope ends, or catch the exception first."},
    {"KB-R009", ExitCode::ok,
     "A rank cannot be unwound, since it swallows `Cancelled` or waits in a destructor; its stack "
     "is leaked.",
     "Throw again in `catch (...)`, and wait for nothing in destructors and functions that are "
     "noexcept."},
    {"KB-R010", ExitCode::collective_misuse, "A world is to have no rank.",
     "Give `spawn()` or `World` at least one."},
    {"KB-R012", ExitCode::collective_misuse,
     "A kernel uses what is the host's: a collective, an operator, a launch, a read, a stream, a "
     "store.",
     "Let the worker do so before or after the launch; a kernel uses its `tl` and its arguments "
     "alone."},
    {"KB-R013", ExitCode::collective_misuse,
     "Something is used, or ranks are joined, after the end of their context; as a warning, it "
     "ends before its ranks.",
     "Let the `RuntimeContext` live longest, and `join()` its ranks before it ends.",
     "21, or a warning"},
    {"KB-R014", exit_code_of_signal(SIGSEGV),
     "The program has made a fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL), as by a null pointer.",
     "Find the line with a debugger, or with the sanitizers of the compiler.",
     "128 + the signal's number"},
    {"KB-R015", ExitCode::collective_misuse,
     "A worker or a kernel threw `kernbench::Cancelled`, by which the runtime unwinds what is "
     "over.",
     "Throw an exception of your own."},
    {"KB-R016", ExitCode::collective_misuse,
     "torch is called on a thread that a rank or a kernel has started.",
     "Let such threads compute only, and call torch in the rank itself."},
    {"KB-R017", ExitCode::collective_misuse,
     "A rank or a kernel destroys the context that it is part of.",
     "Destroy it where it was made, when the ranks have returned."},
    {"KB-R018", ExitCode::collective_misuse, "A number in `RuntimeOptions` is negative.",
     "Give 0 or more."},
    {"KB-R019", ExitCode::collective_misuse,
     "`elapsed_time()` is asked of events that were not made for it, not recorded, or not reached.",
     "Make both with `enable_timing`, record them, and `synchronize()` the later one."},
    {"KB-R020", ExitCode::collective_misuse,
     "A stream or an event is of another rank or of one that has ended, or was moved from.",
     "Let each rank make its own, and use what it was moved to."},
    {"KB-R021", ExitCode::collective_misuse,
     "A rank has died, and spawn() has no result of its worker, whose type has no default value.",
     "Let the worker return a type that has one, or nothing."},
    {"KB-R030", ExitCode::collective_misuse,
     "`write_trace()` is asked of a run that records nothing.",
     "Set `RuntimeOptions::profile`, or make a `profiler::profile` before what the trace is to "
     "show."},
    {"KB-R031", ExitCode::collective_misuse,
     "A table is to be sorted by what operations on a device do not have.",
     "Sort it by one that the message lists."},
});

constexpr std::array kSCodes = std::to_array<ErrorCode>({
    {"KB-S001", ExitCode::interrupted, "The run was ended by SIGINT, SIGTERM or SIGHUP.",
     "Give the same command again: with an output folder a sweep goes on from there.",
     "130, 143 or 129, by the signal"},
});

constexpr std::array kTCodes = std::to_array<ErrorCode>({
    {"KB-T001", ExitCode::collective_misuse,
     "A size is not divisible by the number of tensor parallel ranks, or by another size.",
     "Choose sizes that it divides; the message has both numbers."},
    {"KB-T002", ExitCode::collective_misuse,
     "Parallel groups or their buffers are used before they are made, or made twice.",
     "Call `initialize_model_parallel()` once in each rank, before the layers."},
    {"KB-T003", ExitCode::collective_misuse,
     "Sizes or the order of parallel groups do not fit each other or the world.",
     "Choose sizes whose product divides the world's, and name in the order each that is larger "
     "than 1."},
    {"KB-T004", ExitCode::collective_misuse,
     "A named state of random numbers is there already, or is not.",
     "Add each name and each seed once, and before it is used."},
    {"KB-T005", ExitCode::collective_misuse,
     "`broadcast_data` misses a key, or has it in another type.",
     "Give the first rank of the group all keys, in the type that is asked for."},
    {"KB-T006", ExitCode::collective_misuse,
     "Options, parameters or arguments of a layer, a loss or an optimizer do not go together.",
     "Change the one that the message names."},
    {"KB-T007", ExitCode::ok,
     "A layer with `sequence_parallel` has a single tensor parallel rank, so it does without.",
     "Leave the option out, or use more ranks."},
    {"KB-T008", ExitCode::collective_misuse,
     "Buckets are communicated in the wrong order: before all gradients are there, twice, or not "
     "before the step.",
     "Call `finalize_model_grads()` after the last `backward()` and before `step()`; register "
     "parameters in the order of the forward pass.",
     "21, or a warning"},
});

constexpr std::array<ErrorFamily, 6> kN_to_t = {{
    {'N', "numbers: checks of values", kNCodes},
    {'O', "operator cases of `kernbench bench`", kOCodes},
    {'Q', "queues between PEs", kQCodes},
    {'R', "the runtime: ranks, contexts, streams", kRCodes},
    {'S', "signals", kSCodes},
    {'T', "tensor parallel layers", kTCodes},
}};

}  // namespace

std::span<const ErrorFamily> families_n_to_t() {
  return kN_to_t;
}

}  // namespace kernbench::benches::errors
