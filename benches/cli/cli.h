// The command line as data.

#pragma once

#include <string>
#include <variant>
#include <vector>

namespace kernbench::benches::cli {

struct ListArguments {
  std::string json;  // a file, "-" for stdout, or empty

  friend bool operator==(const ListArguments&, const ListArguments&) = default;
};

struct KeysArguments {
  std::string bench;  // empty: all
  std::string topology = "default";
  std::string ccl;
  std::string json;

  friend bool operator==(const KeysArguments&, const KeysArguments&) = default;
};

struct DrawArguments {
  std::string topology = "default";
  std::string out = "-";  // an SVG file

  friend bool operator==(const DrawArguments&, const DrawArguments&) = default;
};

struct ErrorsArguments {
  std::vector<std::string> codes;  // empty: all
  std::string markdown;            // a file, "-" for stdout, or empty

  friend bool operator==(const ErrorsArguments&, const ErrorsArguments&) = default;
};

struct RunArguments {
  std::string bench;
  std::string topology = "default";
  std::string ccl;                    // empty: the shipped one
  std::vector<std::string> settings;  // "key=value"; several values make a grid
  std::string output_folder;
  std::string json;
  std::string csv;
  std::string trace;
  std::string trace_level;  // empty: kernels
  bool explain = false;
  bool summary = false;
  bool energy = false;
  bool whole_run = false;  // of --explain, --summary and --report
  std::string report;
  std::string kineto;               // a folder
  std::vector<std::string> faults;  // "link=sip0.link.east bandwidth=x0.25"
  std::string seed = "0";
  std::string shuffle_ties;            // a seed; empty: they are not shuffled
  std::string fold = "auto";
  std::string tie_orders;              // empty: the bench says how many
  std::string jobs;                    // empty: the number of hardware threads
  std::string shard;                   // "i/n"; empty: all points
  std::string journals;                // folders, between commas
  std::string plot;                    // "x=COLUMN,y=COLUMN,by=COLUMN", or empty
  std::vector<std::string> uncertain;  // "key=low..high"
  std::string runs;                    // of `uncertain`; empty: 50
  std::string metric;                  // of `uncertain`; empty: the first time of the rows
  std::string rank_by;                 // of `uncertain`: a column; empty: what --set varies
  bool yes = false;                    // to a grid of any size
  bool quiet = false;
  bool verbose = false;

  friend bool operator==(const RunArguments&, const RunArguments&) = default;
};

// `kernbench bench`: an operator.
struct OperatorArguments {
  std::string operator_case;
  std::string dtype = "bf16";
  std::string save_path = "configs";
  bool plot = false;
  bool profile = false;
  RunArguments run;  // without the bench and the plot

  friend bool operator==(const OperatorArguments&, const OperatorArguments&) = default;
};

struct WhatIfArguments {
  RunArguments run;
  std::string metric;  // empty: the first time of the rows

  friend bool operator==(const WhatIfArguments&, const WhatIfArguments&) = default;
};

struct PlanArguments {
  std::string world;   // empty: the bench's own
  std::string memory;  // empty: all HBM
  RunArguments run;    // without the bench

  friend bool operator==(const PlanArguments&, const PlanArguments&) = default;
};

struct CalibrateArguments {
  std::vector<std::string> machines;  // "MACHINE=FILE.csv"
  std::vector<std::string> fit;       // "KEY=LOW..HIGH"
  RunArguments run;

  friend bool operator==(const CalibrateArguments&, const CalibrateArguments&) = default;
};

struct CompareArguments {
  std::vector<std::string> reports;  // two, or none: `run` has two variants
  RunArguments run;
  std::string metric;
  std::string fail_if;

  friend bool operator==(const CompareArguments&, const CompareArguments&) = default;
};

struct ProbePathArguments {
  std::string topology = "default";
  std::string from;
  std::string to;
  std::string bytes;
  std::string json;

  friend bool operator==(const ProbePathArguments&, const ProbePathArguments&) = default;
};

struct ProbeBoundArguments {
  std::string topology = "default";
  std::string collective = "all_reduce";
  std::string group;  // ranks; empty: all
  std::string root = "0";
  std::string bytes;
  std::string json;

  friend bool operator==(const ProbeBoundArguments&, const ProbeBoundArguments&) = default;
};

struct ProbeChooseArguments {
  std::string topology = "default";
  std::string ccl;  // empty: the shipped one
  std::string collective = "all_reduce";
  std::string group;       // ranks; empty: all
  std::string group_name;  // by which rules of ccl.yaml know it
  std::string lanes;       // empty: all PEs of a SIP
  std::string json;

  friend bool operator==(const ProbeChooseArguments&, const ProbeChooseArguments&) = default;
};

struct ProbeOrderArguments {
  std::string topology = "default";
  std::string ccl;  // empty: the shipped one
  std::string collective = "all_reduce";
  std::string algorithm;
  std::string ranks;  // the first of the topology's; empty: all
  std::string bytes;
  std::string element = "0";
  std::string dtype = "f32";
  std::string cube = "replicate";
  std::string pe = "replicate";
  std::string json;

  friend bool operator==(const ProbeOrderArguments&, const ProbeOrderArguments&) = default;
};

// Sizes are texts, so that the probe can report what is wrong with them.
struct ProbeGemmArguments {
  std::string topology = "default";
  std::string m;
  std::string n;
  std::string k;
  std::string rows;      // empty: the topology's
  std::string columns;   // likewise
  std::string dataflow;  // likewise
  std::string json;

  friend bool operator==(const ProbeGemmArguments&, const ProbeGemmArguments&) = default;
};

// --help, --version and what completes a command line.
struct ShowText {
  std::string text;

  friend bool operator==(const ShowText&, const ShowText&) = default;
};

using Arguments =
    std::variant<ShowText, ListArguments, KeysArguments, DrawArguments, ErrorsArguments,
                 RunArguments, WhatIfArguments, PlanArguments, CalibrateArguments,
                 CompareArguments, OperatorArguments, ProbePathArguments, ProbeBoundArguments,
                 ProbeChooseArguments, ProbeOrderArguments, ProbeGemmArguments>;

// Throws UsageError KB-U001, and KB-U012 for an option without a value.
Arguments parse_command_line(int argc, const char* const* argv);

}  // namespace kernbench::benches::cli
