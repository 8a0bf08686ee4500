// The commands behind the command line, one function each. They return an exit code (runner/cli.h),
// print results to `out` and progress to `err`, and throw Error for bad input.
#pragma once

#include <filesystem>
#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "eval/kernel_bench.h"
#include "eval/token_sampler.h"
#include "runner/plan.h"
#include "runner/report/compare.h"

namespace gptqb {

class InputCache;

struct FileOptions {
  std::vector<std::string> files;
  std::vector<std::string> set;
  std::string tier;
  std::string shard = "0/1";
};

struct RunCommandOptions {
  FileOptions files;
  std::string device = "cpu";
  std::string output;
  bool fresh = false;
  bool verify = false;
  // Empty: what the experiment file says.
  std::string executor;
  std::optional<int64_t> workers;
  bool cancel_on_interrupt = false;
  double poll_seconds = 5;
  std::vector<std::string> argv;
  const KernelSource* kernels = nullptr;  // null: those of kernels.def
  InputCache* inputs = nullptr;           // null: the run makes its own
};

// `gptq-bench bench`: values as on the command line, keys of the section `kernels`.
struct BenchCommandOptions {
  RunCommandOptions run;
  std::string like;
  std::vector<std::string> shapes;
  // Key, values: "m", {"1", "16"}.
  std::vector<std::pair<std::string, std::vector<std::string>>> lists;
  std::string filter;
  bool warm = false;
  int64_t repetitions = 0;  // 0: the default
};

// `gptq-bench quantize`: the defaults are what the widest range of loaders runs fast, and what
// costs accuracy nothing.
struct QuantizeCommandOptions {
  RunCommandOptions run;
  std::string model;
  std::string out;
  int64_t bits = 4;
  int64_t group_size = 128;
  bool symmetric = true;
  bool act_order = true;
  bool static_groups = true;
  bool true_sequential = true;
  double damping = 0.01;
  std::string dtype = "auto";
  std::string dataset = "c4";
  int64_t samples = 128;
  int64_t seqlen = 2048;
  int64_t seed = 0;
  std::string format;  // empty: by symmetry
  double shard_size = 5;
};

// `gptq-bench worker`: one of two ways to get cells.
struct WorkerCommandOptions {
  int64_t parent = 0;      // process that hands them out over pipes
  std::string run;         // or the folder of a Slurm run
  int64_t submission = 0;  // and which task of it
  int64_t task = 0;
};

struct InspectOptions {
  std::string folder;
  std::string checkpoint_format = "auto";
  std::string device = "cpu";
  bool measure = false;  // puts the tensors there
};

struct GenerateOptions {
  std::string folder;
  std::optional<std::string> prompt;  // "-": standard input
  std::string prompt_file;            // instead of it; "-": standard input
  int64_t max_tokens = 128;
  SamplingOptions sampling;
  std::vector<std::string> stops;
  bool no_special_tokens = false;
  std::string device = "cpu";
  std::string dtype = "auto";
  std::string backend = "auto";
  std::string checkpoint_format = "auto";
};

struct PlanCommandOptions {
  FileOptions files;
  std::string device = "cpu";  // what estimates are for
  bool measure = false;        // time a block of each cell
  // Output folders whose records say how long cells take, beside results/<experiment name>.
  std::vector<std::string> records;
};

// Each folder is an output folder, or holds such folders at any depth; cells that occur in several
// are repeated runs.
struct CompareCommandOptions {
  std::vector<std::string> folders;  // OLD and NEW; all are OLD where `newer` is given
  std::vector<std::string> newer;
  std::string junit;  // file; empty: none
  bool all = false;   // also list what is the same
  CompareOptions compare;
};

// All plans of the files. Two experiments of one name would write into one folder as one, so that
// is refused.
std::vector<Plan> plans_of(const FileOptions& options);

// $GPTQ_BENCH_DATA; empty if it is not set.
std::filesystem::path data_root();

int run_command(const RunCommandOptions& options, std::ostream& out, std::ostream& err);
int quantize_command(const QuantizeCommandOptions& options, std::ostream& out, std::ostream& err);
int bench_command(const BenchCommandOptions& options, std::ostream& out, std::ostream& err);
// What all three commands that run cells do with their plans.
int run_plans(const std::vector<Plan>& plans, const RunCommandOptions& options, std::ostream& out,
              std::ostream& err);
int inspect_command(const InspectOptions& options, std::ostream& out);
// Writes nothing but the text to `out`, and a line break behind it.
int generate_command(const GenerateOptions& options, std::istream& in, std::ostream& out,
                     std::ostream& err);
int validate_command(const std::string& folder, const std::string& checkpoint_format,
                     const std::string& dense, std::ostream& out);
int convert_command(const std::string& folder, const std::string& checkpoint_format,
                    const std::string& format, const std::string& target, std::ostream& out);
int worker_command(const WorkerCommandOptions& options, std::ostream& err);
int plan_command(const PlanCommandOptions& options, std::ostream& out, std::ostream& err);
// An empty `device` is the record's.
int rerun_command(const std::string& record, const RunCommandOptions& options, std::ostream& out,
                  std::ostream& err);
int report_command(const std::string& folder, const std::string& format, std::ostream& out,
                   std::ostream& err);
int compare_command(const CompareCommandOptions& options, std::ostream& out);
int list_command(const std::string& kind, std::ostream& out);
int schema_command(std::ostream& out);
int doctor_command(std::ostream& out);

}  // namespace gptqb
