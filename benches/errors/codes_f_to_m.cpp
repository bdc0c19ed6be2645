#include <array>

#include "benches/errors/error_tables.h"

namespace kernbench::benches::errors {

namespace {

constexpr std::array kFCodes = std::to_array<ErrorCode>({
    {"KB-F001", ExitCode::device_fault,
     "Shapes, dimensions, indices or options do not fit an operator, an initializer or a function "
     "that makes tensors.",
     "Give what fits: the message has the shapes, mostly in PyTorch's words."},
    {"KB-F002", ExitCode::device_fault,
     "An operator is not there for a type, or not for two types at once.",
     "Convert with `to()`, or make the tensor with the type that the message names."},
    {"KB-F003", ExitCode::device_fault,
     "Tensors of an operator lie on other devices or PEs, or are cut so that PEs cannot compute "
     "with their own parts alone.",
     "Make them with one placement: the message says with which `.dp`."},
    {"KB-F004", ExitCode::device_fault,
     "A target of a loss is neither the number of a class nor `ignore_index`.",
     "Give targets from 0 to below the number of classes, or `ignore_index`."},
    {"KB-F005", ExitCode::device_fault,
     "A view whose elements lie apart is given to what wants them in a row, as a kernel of your "
     "own or `copy_shard_`.",
     "Give its `contiguous()`, and `copy_` that back if it was written."},
});

constexpr std::array kGCodes = std::to_array<ErrorCode>({
    {"KB-G003", ExitCode::collective_misuse,
     "Elements are read or written that a collective, a message or a launch under way still uses.",
     "Wait for the `Work` that the message names first."},
});

constexpr std::array kICodes = std::to_array<ErrorCode>({
    {"KB-I001", ExitCode::configuration, "A file cannot be read.",
     "Check its path and who may read it; a shipped topology is named without folder and `.yaml`."},
    {"KB-I003", ExitCode::configuration,
     "A report for `kernbench compare` is damaged, is none, or is of another version of kernbench.",
     "Write it again with `kernbench run --json`."},
    {"KB-I004", ExitCode::configuration,
     "The two reports of `kernbench compare` are of different benches.",
     "Compare two runs of one bench."},
    {"KB-I010", ExitCode::output,
     "A file cannot be made or written, or a journal of a sweep not be read again.",
     "Give a folder that may be written; remove a journal that is unusable; save a model of more "
     "than 4 GiB in parts."},
    {"KB-I011", ExitCode::output, "Writing to a file, stdout or stderr failed midway.",
     "Make room on the disk or raise `ulimit -f`, and run it again."},
    {"KB-I012", ExitCode::ok, "The flight record of a failure cannot be written.",
     "Set `KERNBENCH_FLIGHT_RECORDER` to a folder that may be written, or to off."},
    {"KB-I013", ExitCode::output,
     "A file of saved tensors cannot be read: it is not there, damaged, compressed, or of a type "
     "that is not known.",
     "Write it again with `kb::nn::save()` or `numpy.savez()`."},
});

constexpr std::array kKCodes = std::to_array<ErrorCode>({
    {"KB-K001", ExitCode::device_fault, "A kernel threw what is no error of kernbench.",
     "Mend what the message quotes, or catch it in the kernel."},
    {"KB-K010", ExitCode::device_fault,
     "A `DPPolicy` has a shard that is none, or a number of cubes or PEs that is negative or more "
     "than there are.",
     "Give numbers up to those of the topology, or 0 for all."},
    {"KB-K020", ExitCode::device_fault,
     "Operands of an operation by elements do not agree in shape or type, or none is a tensor.",
     "Let their shapes agree from the last dimension on, or be 1, and `tl.cast` one of them."},
    {"KB-K021", ExitCode::device_fault,
     "A load or a store has another type than its tensor, or one that there is not.",
     "Give the type of the tensor, which the message names."},
    {"KB-K022", ExitCode::device_fault, "An operation has no such shape, axis, range or divisor.",
     "Give what its value has; the place of a PE is `tl.sip_id()`, `tl.cube_id()` and "
     "`tl.pe_id()`."},
    {"KB-K023", ExitCode::device_fault, "A value is void, or of another kernel or PE.",
     "Use values in the kernel that made them; another one gets them by `tl.store` or `tl.send`."},
    {"KB-K030", ExitCode::device_fault, "Shapes of `tl.dot`, or of its accumulator, do not fit.",
     "Give [m, k] and [k, n], and an accumulator [m, n] in f32."},
    {"KB-K031", ExitCode::device_fault,
     "The operands of a matrix product in a kernel are of two types.",
     "`tl.cast` one of them, or make both tensors with one type."},
    {"KB-K032", ExitCode::device_fault,
     "Rows of a load or a store overlap, or are of what is no matrix.",
     "Give a shape [rows, columns], and a pitch of at least the columns."},
    {"KB-K033", ExitCode::device_fault,
     "Sizes, tiles, blocks or readers of `tl.composite` are out of range, or its tiles make too "
     "many commands.",
     "Give what lies in the range of the message; larger tiles make fewer commands."},
    {"KB-K034", ExitCode::device_fault, "The result of `tl.composite` overlaps an operand.",
     "Store it into another tensor."},
    {"KB-K035", ExitCode::device_fault, "Tiles of `tl.composite` do not fit into TCM, two of each.",
     "Give smaller ones, or none, and they are chosen."},
    {"KB-K036", ExitCode::device_fault, "`tl.composite` is given an activation that there is not.",
     "Give none, relu, sigmoid, silu or gelu."},
});

constexpr std::array kLCodes = std::to_array<ErrorCode>({
    {"KB-L001", ExitCode::host_limit,
     "The run needs more memory, or more stacks of fibers, than the host has.",
     "Use fewer ranks and PEs or smaller sizes, time without values, or raise `vm.max_map_count` "
     "and `ulimit -v`."},
    {"KB-L002", ExitCode::host_limit, "The host has no memory left.",
     "Use smaller sizes or fewer `--jobs`, or make contexts with `RuntimeOptions::data` false, "
     "which gives times alone."},
    {"KB-L003", ExitCode::host_limit, "The host gives no more threads, processes or open files.",
     "Close files, end other processes, or raise `ulimit -n`, `ulimit -u` and `ulimit -v`."},
    {"KB-L004", ExitCode::host_limit,
     "`/proc/self/exe` cannot be read, by which saved results know the program that they are of.",
     "Mount `/proc`."},
    {"KB-L005", ExitCode::host_limit, "MPI has failed, or allows no threads beside it.",
     "Read MPI's own words in the message; an MPI with `MPI_THREAD_FUNNELED` is needed."},
});

constexpr std::array kMCodes = std::to_array<ErrorCode>({
    {"KB-M001", ExitCode::device_fault,
     "A tensor is not defined, or was freed while a kernel points at it.",
     "Make the tensor first, and give it to `launch()` as an argument, which keeps it alive."},
    {"KB-M010", ExitCode::device_fault,
     "HBM, SRAM or TCM has no room for a tensor, a value or a queue.",
     "Take smaller sizes, more PEs, fewer or smaller slots, or a topology with more memory; the "
     "message has the sizes."},
    {"KB-M012", ExitCode::device_fault,
     "A shape has a negative size, too many dimensions, or more elements than can be counted.",
     "Give sizes of at least 0 in fewer dimensions, or smaller ones."},
    {"KB-M013", ExitCode::device_fault, "An object of one context is used in another one.",
     "Use tensors, streams and groups with the context that made them."},
    {"KB-M014", ExitCode::device_fault, "A tensor is to be made in a type that there is not.",
     "Give one of those that the message lists."},
    {"KB-M015", ExitCode::device_fault,
     "A number of elements, or a shape, does not agree with what is copied, made or expected.",
     "Give as many elements as the shape has, or shapes that agree."},
    {"KB-M016", ExitCode::device_fault,
     "`item()` is asked of a tensor that does not have one element.",
     "Reduce it first, or read it with `at()` or `to_vector()`."},
    {"KB-M017", ExitCode::device_fault, "A tensor has no such element, shard or dimension.",
     "Give an index for each dimension, below its size."},
    {"KB-M018", ExitCode::device_fault, "Values are read of a context that computes none.",
     "Make the context with `RuntimeOptions::data` true."},
    {"KB-M019", ExitCode::device_fault, "A host tensor is given to what computes on a device.",
     "Make it on the device by its options, or `copy_` it into a tensor that lies there."},
    {"KB-M020", ExitCode::device_fault,
     "A kernel reads or writes outside of its PE's shard, or by a pointer to what is not there.",
     "Stay below the number of elements of the shard, and give `launch()` the tensor as an "
     "argument."},
    {"KB-M021", ExitCode::device_fault,
     "A number does not fit the type of the tensor that it is to fill.",
     "Give one within the range that the message names, or a wider type."},
    {"KB-M024", ExitCode::device_fault,
     "There is no such device, or a tensor, a module or a batch cannot get there.",
     "Give ahbm, ahbm:0, ahbm:1, ...; call `torch.ahbm.set_device()` before loading, and move "
     "modules before `fully_shard()`."},
    {"KB-M030", ExitCode::device_fault,
     "Operations of kernels touch the same elements, one of them writing, and nothing orders them.",
     "Order two PEs by a `tl.send` after the first and a `tl.recv` before the second; wait for a "
     "`Work` before the launch."},
    {"KB-M031", ExitCode::device_fault,
     "Launches on two streams touch the same elements, one of them writing, and nothing orders "
     "them.",
     "Wait for an `Event` of the one, or `wait_stream()`, before the launch on the other."},
});

constexpr std::array<ErrorFamily, 6> kF_to_m = {{
    {'F', "functions and operators on tensors", kFCodes},
    {'G', "data under way", kGCodes},
    {'I', "input and output", kICodes},
    {'K', "kernels", kKCodes},
    {'L', "limits of the host", kLCodes},
    {'M', "memory, tensors and devices", kMCodes},
}};

}  // namespace

std::span<const ErrorFamily> families_f_to_m() {
  return kF_to_m;
}

}  // namespace kernbench::benches::errors
