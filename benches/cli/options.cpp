#include "benches/cli/options.h"

namespace kernbench::benches::cli {

namespace {

// Adds an option, whose default is the value that it has now.
template <class Value>
CLI::Option* add(CLI::App* app, const char* name, const char* type, Value& value,
                 const char* help) {
  CLI::Option* option = app->add_option(name, value, help)->type_name(type);
  return value.empty() ? option : option->capture_default_str();
}

void add_topology(CLI::App* app, std::string& topology) {
  add(app, "--topology", "F|NAME", topology, "A topology file, or the name of a shipped one");
}

void add_collective(CLI::App* app, std::string& collective, std::string& group) {
  add(app, "--collective", "NAME", collective, "One that the bench `collectives` has");
  add(app, "--group", "RANKS", group, "Such as 0,2,4; else all");
}

void add_jobs(CLI::App* app, std::string& jobs) {
  add(app, "--jobs", "N", jobs,
      "Points of a sweep to simulate at once; else one per hardware thread");
}

void add_shuffle_ties(CLI::App* app, std::string& seed) {
  add(app, "--shuffle-ties", "SEED", seed,
      "Draw the order of what happens at the same instant; else it is that of cause");
}

void add_json(CLI::App* app, std::string& json) {
  add(app, "--json", "F", json, "Write it as JSON to this file; - for stdout");
}

void add_list(CLI::App& app, ListArguments& arguments) {
  CLI::App* list = app.add_subcommand("list", "Show benches, algorithms and topologies");
  add_json(list, arguments.json);
  list->footer("\nExamples:\n  kernbench list\n  kernbench list --json -");
}

void add_keys(CLI::App& app, KeysArguments& arguments) {
  CLI::App* keys = app.add_subcommand("keys", "Show the keys that --set takes");
  add(keys, "--bench", "NAME", arguments.bench, "Keys of this bench; else of each");
  add_topology(keys, arguments.topology);
  add(keys, "--ccl", "F|NAME", arguments.ccl,
      "ccl.yaml: the algorithm and its queues; else that of a shipped topology, as of h100_8");
  add_json(keys, arguments.json);
  keys->footer("\nExamples:\n  kernbench keys\n  kernbench keys --bench tp-mlp --topology tiny");
}

void add_draw(CLI::App& app, DrawArguments& arguments) {
  CLI::App* draw =
      app.add_subcommand("draw", "Draw a topology: its SIPs, their cubes, PEs and units");
  draw->add_option("TOPOLOGY", arguments.topology, "A topology file, or the name of a shipped one")
      ->capture_default_str();
  add(draw, "--out", "F", arguments.out, "The SVG file; - for stdout");
  draw->footer("\nExamples:\n  kernbench draw torus_2d_2x3 --out torus.svg");
}

void add_errors(CLI::App& app, ErrorsArguments& arguments) {
  CLI::App* errors =
      app.add_subcommand("errors", "Show what codes of errors mean, and what to do about them");
  errors->add_option("CODE", arguments.codes, "Such as KB-C002; else all are listed");
  add(errors, "--markdown", "F", arguments.markdown,
      "Write all of them as a page to this file; - for stdout");
  errors->footer("\nExamples:\n  kernbench errors\n  kernbench errors KB-C002 KB-D001");
}

void add_seed(CLI::App* app, std::string& seed) {
  add(app, "--seed", "N", seed, "Of whatever draws random numbers");
}

// Adds the options that every command takes that runs a bench.
void add_run_options(CLI::App* app, RunArguments& arguments) {
  add_topology(app, arguments.topology);
  add(app, "--ccl", "F|NAME", arguments.ccl,
      "ccl.yaml: the algorithm and its queues; else that of a shipped topology, as of h100_8");
  add(app, "--set,--vary", "KEY=VALUE", arguments.settings,
      "Keys of the bench, the topology or ccl.yaml, one or more;\nseveral values make a grid");
  add(app, "--fault", "'KEY=VALUE ...'", arguments.faults,
      "Let something go wrong, once or more: 'link=sip0.link.east bandwidth=x0.25 from=10us',\n"
      "'rank=3 start=+50us'; besides those of the topology's section `faults`")
      ->allow_extra_args(false);
  add_seed(app, arguments.seed);
  add_shuffle_ties(app, arguments.shuffle_ties);
  add(app, "--fold", "HOW", arguments.fold,
      "Ranks that do alike are simulated once: 'exact', with the times of all; 'near', those\n"
      "too that are nearly alike: a step's time is within 2 %, what it exposes may be further\n"
      "off; 'auto' (the default), near from 32 ranks on, else exact; 'off', none")
      ->check(CLI::IsMember({"auto", "exact", "near", "off"}));
  add(app, "--out", "DIR", arguments.output_folder,
      "Write report.json, report.csv and the bench's files into this folder");
  add(app, "--json", "F", arguments.json, "Write the report to this file; - for stdout");
  add(app, "--csv", "F", arguments.csv, "Write the rows to this file; - for stdout");
  add(app, "--trace", "F", arguments.trace, "Write a trace for ui.perfetto.dev");
  add(app, "--trace-level", "LEVEL", arguments.trace_level,
      "What it shows: ranks, kernels too (the default), or all units too");
  app->add_flag("--explain", arguments.explain, "Show where the simulated time went");
  app->add_flag("--summary", arguments.summary,
                "Show tables of ranks, kernels, collectives, units and waits");
  app->add_flag("--energy", arguments.energy,
                "Show the energy of what is timed, by unit, and add it to the rows");
  app->add_flag("--whole-run", arguments.whole_run,
                "--explain, --summary and --report show more than what the bench times:\n"
                "uploads, warm-up and reading back too");
  add(app, "--report", "F", arguments.report, "Write where the time went as an HTML page");
  add(app, "--kineto", "DIR", arguments.kineto,
      "Write a trace for each rank in the form of PyTorch's profiler, for HTA");
  add_jobs(app, arguments.jobs);
  app->add_flag("-q,--quiet", arguments.quiet, "Print errors alone");
  app->add_flag("-v,--verbose", arguments.verbose, "Print a line for each simulated system");
}

void add_grid_options(CLI::App* app, RunArguments& arguments) {
  app->add_flag("--yes", arguments.yes, "Run a grid of more than 10,000 points");
  add(app, "--tie-orders", "N", arguments.tie_orders,
      "Simulate everything in so many such orders too, and show how far times vary");
}

CLI::Option* add_bench_name(CLI::App* app, RunArguments& arguments) {
  return add(app, "--bench", "NAME", arguments.bench, "Its name; `kernbench list` shows all");
}

void add_metric(CLI::App* app, std::string& metric) {
  add(app, "--metric", "COLUMN", metric, "The time that counts; else the first one of the rows");
}

void add_uncertain(CLI::App* app, RunArguments& arguments) {
  add(app, "--uncertain", "KEY=LOW..HIGH", arguments.uncertain,
      "Ranges of what is not known exactly, one or more: runs with\nvalues drawn from them");
  add(app, "--runs", "N", arguments.runs, "Of --uncertain: how many, 3 to 10,000; else 50");
  add(app, "--metric", "COLUMN", arguments.metric,
      "Of --uncertain: the time that counts; else the first one of the rows");
  add(app, "--rank-by", "COLUMN", arguments.rank_by,
      "Of --uncertain: which of the texts in it is fastest, in how many runs,\n"
      "and what decides; else of what --set varies");
}

void add_run(CLI::App& app, RunArguments& arguments) {
  CLI::App* run = app.add_subcommand("run", "Run a bench");
  add_bench_name(run, arguments)->required();
  add_run_options(run, arguments);
  add_grid_options(run, arguments);
  add(run, "--shard", "I/N", arguments.shard,
      "Simulate points I, I + N, ... of a sweep, and keep them in --out for --journals");
  add(run, "--journals", "DIR,DIR", arguments.journals,
      "Take the points that shards have left in these folders; wants --out");
  add(run, "--plot", "x=,y=,by=", arguments.plot,
      "Draw a column of the rows over another, a curve for each\nvalue of a third; wants --out");
  add_uncertain(run, arguments);
  run->footer(
      "\nExamples:\n"
      "  kernbench run --bench ccl-allreduce\n"
      "  kernbench run --bench ccl-allreduce --topology torus_2d_2x3 --set n_elem=1024,49152 "
      "dtype=bf16\n"
      "  kernbench run --bench ccl-allreduce --set algorithm=auto --json - | jq .rows\n"
      "  kernbench run --bench ccl-allreduce --topology tiny --explain --report report.html\n"
      "  kernbench run --bench ccl-allreduce --set sip.ucie.bandwidth='64,128,256 GB/s' "
      "system.sips.count=2,4\n"
      "  kernbench run --bench ccl-allreduce --set system.sip_link.latency='100,300 ns' --out grid "
      "\\\n"
      "    --plot x=system.sip_link.latency,y=time\n"
      "  kernbench run --bench ccl-allreduce --set algorithm=ring_allreduce,tree_allreduce \\\n"
      "    --uncertain sip_link.latency=250..900ns,sip_link.bandwidth='40..64 GB/s'\n"
      "\nA value is a comma list: all combinations are run.  Keys that are lists themselves, as "
      "n_elem,\ntake several lists between semicolons.  `kernbench keys` lists all keys.\n"
      "A key of a range may be named by its ending.\n"
      "\nCtrl-C ends a run in order: what is finished is written, and a sweep that has an output\n"
      "folder goes on from there when the same command is given again.\n"
      "\nExit codes: 0 fine, 1 a check or a worker failed, 2 wrong command line, 3 wrong\n"
      "configuration, 4 output, 20 deadlock, 21 collectives, 22 device, 23 numerics, 24 values,\n"
      "70 our bug, 71 a limit of the host, 130, 143 and 129 ended by SIGINT, SIGTERM and SIGHUP.");
}

void add_bench(CLI::App& app, OperatorArguments& arguments) {
  CLI::App* bench = app.add_subcommand("bench", "Check an operator, and time its kernels");
  add(bench, "--case", "NAME", arguments.operator_case, "The operator; `kernbench list` shows all")
      ->required();
  add(bench, "--dtype", "TYPE", arguments.dtype, "f16, bf16 and f32, separated by commas, or all");
  add(bench, "--save-path", "DIR", arguments.save_path,
      "Write CSV, figures and traces into this folder, in CASE/TYPE");
  bench->add_flag("--plot", arguments.plot,
                  "Batch 1 only, and figures of the speed-up over the length");
  bench->add_flag("--profile", arguments.profile,
                  "Chrome traces, one for each number of tokens, of the largest dim");
  add_run_options(bench, arguments.run);
  add_grid_options(bench, arguments.run);
  bench->footer(
      "\nFirst every provider of the operator is checked, forward and backward; then it is timed.\n"
      "A check that fails ends the run with exit code 23 before any time is shown.\n"
      "\nExamples:\n"
      "  kernbench bench --case rms\n"
      "  kernbench bench --case mul_poly --dtype all --profile --save-path results\n"
      "  kernbench bench --case rms --plot --save-path plots\n"
      "  kernbench bench --case rms --set batch_size=1 seq_len=512,1Ki dim=2048");
}

void add_whatif(CLI::App& app, WhatIfArguments& arguments) {
  CLI::App* whatif = app.add_subcommand(
      "whatif", "Run a bench again with each resource faster: what would that buy");
  add_bench_name(whatif, arguments.run)->required();
  add_run_options(whatif, arguments.run);
  add_metric(whatif, arguments.metric);
  whatif->footer(
      "\nEvery bandwidth, clock and time of the topology is doubled in speed, quadrupled and made\n"
      "infinite, one at a time, and all but one are made infinite.  With --out also as a figure.\n"
      "--metric simulated_ns is the time of the whole run, as --explain --whole-run shows it.\n"
      "\nExamples:\n"
      "  kernbench whatif --bench tp-transformer --set tp=4\n"
      "  kernbench whatif --bench ccl-allreduce --set n_elem=49152 --out what");
}

void add_plan(CLI::App& app, PlanArguments& arguments) {
  CLI::App* plan = app.add_subcommand(
      "plan", "The fastest ways to train a model on so many devices that fit into their memory");
  add(plan, "--world", "N", arguments.world, "Ranks, a SIP each: the key `world` of bench plan");
  add(plan, "--memory", "BYTES", arguments.memory,
      "Of each SIP that a plan may take, such as 16GiB: the key `memory`; else all of its HBM");
  add_run_options(plan, arguments.run);
  plan->footer(
      "\nA plan is a number of tensor parallel ranks, stages of a pipeline with a schedule, a\n"
      "scheme of the data parallel ranks (ddp, zero1 or fsdp2; of pipelines not fsdp2), a size of\n"
      "buckets, a number of micro-batches, and what is computed again; all take the samples\n"
      "`batch` in a step.  Each is timed by few layers and micro-batches, or by its stages, and\n"
      "the best in full (the key `full`); not what would be slower than what fits (the key\n"
      "`exhaustive`).  --fold auto is near.  Keys: `kernbench keys --bench plan`.\n"
      "\nExamples:\n"
      "  kernbench plan --topology tiny --world 8 --memory 64MiB --set heads=8\n"
      "  kernbench plan --world 64 --memory 16GiB --set config=gpt2 dtype=bf16");
}

void add_calibrate(CLI::App& app, CalibrateArguments& arguments) {
  CLI::App* calibrate = app.add_subcommand(
      "calibrate", "Published times beside simulated ones; and fit a machine to them");
  calibrate
      ->add_option("MACHINE=FILE", arguments.machines,
                   "A topology, and a file of its published times with a head such as\n"
                   "bytes,all_reduce_us,all_gather_us; one or more")
      ->required();
  RunArguments& run = arguments.run;
  add(calibrate, "--ccl", "F|NAME", run.ccl,
      "ccl.yaml: the algorithms, and what software takes; else each machine's own");
  add(calibrate, "--fit", "KEY=LOW..HIGH", arguments.fit,
      "Search these keys' values by least squares, the same for all machines;\n"
      "KEY+KEY=LOW..HIGH is one value for both");
  add(calibrate, "--set", "KEY=VALUE", run.settings,
      "Keys of the bench `calibrate`, the topology or ccl.yaml, of all machines");
  add(calibrate, "--out", "DIR", run.output_folder,
      "Write the report, fit.csv, a figure and the fitted files into this folder");
  add_json(calibrate, run.json);
  add(calibrate, "--csv", "F", run.csv, "Write the rows to this file; - for stdout");
  add_jobs(calibrate, run.jobs);
  calibrate->add_flag("-q,--quiet", run.quiet, "Print errors alone");
  calibrate->footer(
      "\nA fit makes ln(simulated / published) of all rows of all files least.  Sizes such as\n"
      "rules.2.up_to are searched over the sizes between the rows.  A parameter whose value says\n"
      "little is told, and ends with exit code 1.\n"
      "\nExamples:\n"
      "  kernbench calibrate h100_8=topologies/h100_8/published.csv\n"
      "  kernbench calibrate h100_8=topologies/h100_8/published.csv \\\n"
      "    --fit protocols.LL128.start=5..20us protocols.NVLS.start=5..50us --out fitted\n"
      "  kernbench calibrate tt_wormhole_2_line=2.csv tt_wormhole_8_ring=8.csv --ccl mine.yaml "
      "\\\n"
      "    --fit protocols.all_gather.start=0..9us,rules.7.up_to=64KiB..4MiB");
}

void add_compare(CLI::App& app, CompareArguments& arguments) {
  CLI::App* compare =
      app.add_subcommand("compare", "Two reports, or two runs: what has changed, by row");
  compare->add_option("REPORTS", arguments.reports, "Two files of `kernbench run --json`");
  add_bench_name(compare, arguments.run);
  add_run_options(compare, arguments.run);
  add_metric(compare, arguments.metric);
  add(compare, "--fail-if", "CONDITION", arguments.fail_if,
      "End with exit code 23 if it holds for a row, or one is gone: 'time_ns > 1.05 * baseline'");
  compare->footer(
      "\nExamples:\n"
      "  kernbench compare before.json after.json --fail-if 'time_ns > 1.05 * baseline'\n"
      "  kernbench compare --bench collectives --topology ring_1d_6,torus_2d_2x3\n"
      "  kernbench compare --bench ccl-allreduce --set "
      "algorithm=ring_allreduce,tree_allreduce");
}

void add_completion(CLI::App& app, std::string& shell) {
  CLI::App* completion = app.add_subcommand("completion", "Print the completion of a shell");
  completion->add_option("SHELL", shell, "bash")->required();
  completion->footer("\nExample:\n  source <(kernbench completion bash)");
}

void add_path(CLI::App& probe, ProbePathArguments& arguments) {
  CLI::App* path = probe.add_subcommand(
      "path", "The way of a message between two PEs: its links, simulated and in closed form");
  add_topology(path, arguments.topology);
  add(path, "--from", "sipS.cubeC.peP", arguments.from, "The sending PE")->required();
  add(path, "--to", "sipS.cubeC.peP", arguments.to, "The receiving PE")->required();
  add(path, "--bytes", "N", arguments.bytes, "Size of the message, such as 65536 or 64KiB")
      ->required();
  add_json(path, arguments.json);
  path->footer(
      "\nExample:\n"
      "  kernbench probe path --from sip0.cube0.pe0 --to sip1.cube0.pe0 --bytes 64KiB");
}

void add_bound(CLI::App& probe, ProbeBoundArguments& arguments) {
  CLI::App* bound = probe.add_subcommand(
      "bound", "The time that no algorithm for a collective can beat on a topology");
  add_topology(bound, arguments.topology);
  add_collective(bound, arguments.collective, arguments.group);
  add(bound, "--root", "R", arguments.root, "Rank in the group, of a collective that has a root");
  add(bound, "--bytes", "N", arguments.bytes, "Its size as `collectives` counts it: 65536, 64KiB")
      ->required();
  add_json(bound, arguments.json);
  bound->footer(
      "\nExample:\n"
      "  kernbench probe bound --topology ring_1d_6 --collective all_reduce --bytes 1MiB");
}

void add_choose(CLI::App& probe, ProbeChooseArguments& arguments) {
  CLI::App* choose = probe.add_subcommand(
      "choose",
      "Which algorithm a collective of a group runs by, for each size, and its modelled time");
  add_topology(choose, arguments.topology);
  add(choose, "--ccl", "F", arguments.ccl, "ccl.yaml, whose rules go before the model");
  add_collective(choose, arguments.collective, arguments.group);
  add(choose, "--group-name", "TEXT", arguments.group_name,
      "The group's description, by which rules name it");
  add(choose, "--lanes", "N", arguments.lanes, "PEs of a SIP that send, else all");
  add_json(choose, arguments.json);
  choose->footer(
      "\nExample:\n"
      "  kernbench probe choose --topology torus_2d_2x3 --collective broadcast --group 0,1,3,4");
}

void add_order(CLI::App& probe, ProbeOrderArguments& arguments) {
  CLI::App* order = probe.add_subcommand(
      "order", "The order in which a collective adds up an element, and what that bounds");
  add_topology(order, arguments.topology);
  add(order, "--ccl", "F", arguments.ccl, "ccl.yaml, whose queues say how data is cut");
  add(order, "--collective", "NAME", arguments.collective, "all_reduce, reduce or reduce_scatter");
  add(order, "--algorithm", "NAME", arguments.algorithm, "One that `kernbench list` has")
      ->required();
  add(order, "--ranks", "N", arguments.ranks, "The first so many ranks, else all");
  add(order, "--bytes", "N", arguments.bytes, "What each rank gives: 65536, 64KiB")->required();
  add(order, "--element", "I", arguments.element, "Its index in that");
  add(order, "--dtype", "NAME", arguments.dtype, "f32, f16 or bf16");
  add(order, "--cube", "NAME", arguments.cube,
      "How the tensor lies on the cubes of a SIP:\n"
      "replicate, row_wise, column_wise or partial");
  add(order, "--pe", "NAME", arguments.pe, "The same of the PEs of a cube");
  add_json(order, arguments.json);
  order->footer(
      "\nExample:\n"
      "  kernbench probe order --topology ring_1d_6 --algorithm ring_allreduce --bytes 4KiB");
}

void add_gemm(CLI::App& probe, ProbeGemmArguments& arguments) {
  CLI::App* gemm = probe.add_subcommand(
      "gemm", "The cycles of a GEMM [m, k] x [k, n] on a PE's array, in closed form");
  add_topology(gemm, arguments.topology);
  add(gemm, "--m", "M", arguments.m, "Rows of the result")->required();
  add(gemm, "--n", "N", arguments.n, "Columns of the result")->required();
  add(gemm, "--k", "K", arguments.k, "Length of the sums")->required();
  add(gemm, "--rows", "R", arguments.rows, "Of the array, else the topology's");
  add(gemm, "--columns", "C", arguments.columns, "Of the array, else the topology's");
  add(gemm, "--dataflow", "NAME", arguments.dataflow,
      "output_stationary, weight_stationary or input_stationary,\nelse the topology's");
  add_json(gemm, arguments.json);
  gemm->footer(
      "\nExample:\n"
      "  kernbench probe gemm --m 4096 --n 4096 --k 4096 --rows 128 --columns 128");
}

}  // namespace

void add_commands(CLI::App& app, Commands& commands) {
  add_list(app, commands.list);
  add_keys(app, commands.keys);
  add_draw(app, commands.draw);
  add_errors(app, commands.errors);
  add_run(app, commands.run);
  add_whatif(app, commands.whatif);
  add_plan(app, commands.plan);
  add_calibrate(app, commands.calibrate);
  add_compare(app, commands.compare);
  add_bench(app, commands.bench);
  CLI::App* probe = app.add_subcommand("probe", "One figure of the model");
  probe->require_subcommand(1);
  add_path(*probe, commands.path);
  add_bound(*probe, commands.bound);
  add_choose(*probe, commands.choose);
  add_order(*probe, commands.order);
  add_gemm(*probe, commands.gemm);
  add_completion(app, commands.shell);
}

}  // namespace kernbench::benches::cli
