#include <array>

#include "benches/errors/error_tables.h"

namespace kernbench::benches::errors {

namespace {

constexpr std::array kUCodes = std::to_array<ErrorCode>({
    {"KB-U001", ExitCode::usage,
     "A command, an option or an argument is unknown, is missing, or does not go with another one.",
     "See `kernbench COMMAND --help`."},
    {"KB-U002", ExitCode::usage, "No bench has that name.", "See `kernbench list`."},
    {"KB-U003", ExitCode::usage, "No algorithm has that name, or it is for other collectives.",
     "See `kernbench list`, which says what each is for."},
    {"KB-U004", ExitCode::usage, "No shipped topology has that name, and no file that path.",
     "See `kernbench list`, or give the path of a file."},
    {"KB-U005", ExitCode::usage, "No bound is known for that collective.",
     "Give one that the message names."},
    {"KB-U006", ExitCode::usage, "A bench, an operator case or an algorithm has that name already.",
     "Give yours another name."},
    {"KB-U007", ExitCode::usage, "No operator case has that name.", "See `kernbench list`."},
    {"KB-U010", ExitCode::usage, "`--set` is given something else than KEY=VALUE, or a key twice.",
     "Give each key once; several values stand between commas."},
    {"KB-U011", ExitCode::usage,
     "Neither the bench nor the topology nor ccl.yaml has a key of that name.",
     "See `kernbench keys --bench NAME`."},
    {"KB-U012", ExitCode::usage,
     "An option or a setting has a value that it cannot take, or that has no effect here.",
     "Give one of the form and range that the message names, or leave it out."},
    {"KB-U013", ExitCode::usage, "A variable of the environment has a value that it cannot have.",
     "Give one that the message lists; `debugging.md` has all variables."},
    {"KB-U014", ExitCode::usage, "`assert_is_sum()` is given no contributions.",
     "Give one for each rank."},
    {"KB-U015", ExitCode::usage,
     "The program was started as several processes that do not know each other.",
     "Build it with `-DKERNBENCH_WITH_MPI=ON` and start it with that MPI's mpirun, or start it "
     "alone."},
    {"KB-U016", ExitCode::usage,
     "The values make too many runs: a grid of more than 10,000 points, or more than one for "
     "`kernbench whatif`.",
     "Give fewer values; `--yes` runs a grid of any size."},
    {"KB-U017", ExitCode::usage,
     "`kernbench compare` has not two runs with rows in common, or `--metric` or `--rank-by` is no "
     "column of the rows.",
     "Give two reports of the same values, or two values to one key; the message lists the "
     "columns."},
    {"KB-U018", ExitCode::usage,
     "`--plot` names no columns of the rows, or no folder is given for its files.",
     "Give x=COLUMN,y=COLUMN of those that the message lists, and `--out DIR`."},
    {"KB-U019", ExitCode::usage,
     "`--fail-if` is no condition, or is of a column without numbers in both runs.",
     "Give a condition such as 'time_ns > 1.05 * baseline'."},
    {"KB-U020", ExitCode::usage, "`kernbench errors` is asked for a code that there is not.",
     "See `kernbench errors`."},
    {"KB-U021", ExitCode::usage,
     "A range is not KEY=LOW..HIGH, or its key is a name, a text or a list, or has two ranges.",
     "Give one range such as sip_link.latency=250..900ns to each key; `kernbench keys` says which "
     "have units or are numbers."},
    {"KB-U022", ExitCode::usage,
     "A fit has more parameters than half of its rows, or one that moves no row.",
     "Fit fewer keys, or give more rows, of collectives and sizes that depend on them."},
    {"KB-U030", ExitCode::usage,
     "KERNBENCH_REPLAY holds no schedule, or that of another program or version.",
     "Give the line that the failed exploration has printed, and run the test that it names."},
    {"KB-U031", ExitCode::usage, "A number of `ExploreOptions` is less than 1.",
     "Give 1 at least: of runs, depth, deepest and slowest_percent, and one kind to vary."},
});

constexpr std::array kXCodes = std::to_array<ErrorCode>({
    {"KB-X001", ExitCode::internal,
     "A check within kernbench has failed: this is a bug of kernbench.",
     "Report it with the command that the message ends with."},
});

constexpr std::array kYCodes = std::to_array<ErrorCode>({
    {"KB-Y001", ExitCode::configuration,
     "The text is no YAML, or has a character that a text does not have.",
     "Mend it at the line and column of the message."},
    {"KB-Y002", ExitCode::configuration, "The file is empty.",
     "Begin with a copy of `topologies/default.yaml` or `ccl/ccl.yaml`."},
    {"KB-Y003", ExitCode::configuration, "A second document begins in the file.",
     "Keep one document in a file."},
    {"KB-Y010", ExitCode::configuration, "There is no such key at that place.",
     "Take the one that the message suggests, or move it to where it belongs."},
    {"KB-Y011", ExitCode::configuration, "A key or a value has the wrong form, or a tag.",
     "Write it in the form that the message expects, such as a number with its unit."},
    {"KB-Y012", ExitCode::configuration, "A key stands twice at one place.", "Keep one of them."},
    {"KB-Y013", ExitCode::configuration, "The file has anchors, aliases or merge keys.",
     "Write the values out where they are used."},
    {"KB-Y014", ExitCode::configuration, "The file is nested more than 32 deep.",
     "Nest it less: no key of kernbench lies so deep."},
    {"KB-Y015", ExitCode::configuration, "The file is larger than 1 MiB.",
     "Give a topology or a ccl.yaml, which is smaller."},
    {"KB-Y016", ExitCode::configuration, "A key is missing.",
     "Add it; the message has an example."},
    {"KB-Y020", ExitCode::configuration,
     "A value is out of range, is none of those that there are, or is given twice.",
     "Give one that the message names."},
    {"KB-Y030", ExitCode::configuration,
     "The sides of the grid of SIPs do not multiply to their number.",
     "Change `w`, `h`, `d` or `count` of `system.sips`."},
    {"KB-Y035", ExitCode::configuration,
     "The channels or slices of HBM cannot be shared by the PEs of a cube.",
     "Let one of channels and PEs divide the other, and slices divide both."},
    {"KB-Y036", ExitCode::configuration, "The machine has more than 1,048,576 PEs.",
     "Give fewer SIPs, cubes or PEs."},
    {"KB-Y037", ExitCode::configuration,
     "A `Topology` that the program has made or changed contradicts itself.",
     "Set its members as the message says."},
    {"KB-Y038", ExitCode::configuration,
     "A `switch` is described, and the SIPs are joined otherwise.",
     "Leave it out, or set `system.sips.topology` to switch."},
    {"KB-Y039", ExitCode::configuration, "A full mesh is to join more than 64 SIPs.",
     "Give fewer SIPs, or join them by a switch."},
    {"KB-Y040", ExitCode::configuration,
     "ccl.yaml names an algorithm or a protocol that there is not, or one that is for other "
     "collectives.",
     "Take one of `kernbench list`, or an entry of the file."},
    {"KB-Y041", ExitCode::configuration,
     "`world_size` in ccl.yaml does not fit the PEs of the topology.",
     "Give one of the numbers that the message lists."},
    {"KB-Y042", ExitCode::configuration,
     "ccl.yaml has `world_size`, which makes every PE a rank, and `participants`, which chooses "
     "among the PEs of a SIP.",
     "Keep one of them."},
    {"KB-Y043", ExitCode::configuration, "A key of ccl.yaml has no meaning here.",
     "Take it out, or set what the message says that it needs."},
    {"KB-Y044", ExitCode::configuration,
     "The queues of ccl.yaml do not fit the memory that they are to lie in.",
     "Give fewer or smaller slots, or another `buffer_kind`."},
    {"KB-Y045", ExitCode::configuration, "A protocol of ccl.yaml is for no size.",
     "Let `up_to` ascend, and give none to the last alone and to those that rules name."},
    {"KB-Y046", ExitCode::configuration,
     "The algorithm that the command line names ran no collective.",
     "Leave it out, or run a bench that has a collective which it is for."},
    {"KB-Y047", ExitCode::configuration,
     "The members of a group cannot run the algorithm that is named for it.",
     "Name another one; `kernbench probe choose` shows those that run."},
    {"KB-Y048", ExitCode::configuration,
     "A file of published times has another form than `calibrate` reads.",
     "Begin it with a head such as 'bytes,all_reduce_us', and have a row of numbers for each "
     "size."},
    {"KB-Y049", ExitCode::configuration,
     "The scratch of communication leaves no TCM to users' kernels.",
     "Lower `communication.scratch`, or raise `pe.tcm.capacity`."},
    {"KB-Y050", ExitCode::configuration, "An item of the section `faults` is no fault.",
     "Write it as `--fault` takes it, such as 'rank=3 start=+50us'; the message says what is "
     "wrong."},
    {"KB-Y051", ExitCode::configuration,
     "A fault names a link, a PE or a rank that the machine does not have.",
     "Take the name that the message gives; `kernbench probe path` shows names of links."},
});

constexpr std::array<ErrorFamily, 3> kU_to_y = {{
    {'U', "use of the command line, the environment and some functions", kUCodes},
    {'X', "bugs of kernbench", kXCodes},
    {'Y', "YAML and other input files: topologies, ccl.yaml, published times", kYCodes},
}};

}  // namespace

std::span<const ErrorFamily> families_u_to_y() {
  return kU_to_y;
}

}  // namespace kernbench::benches::errors
