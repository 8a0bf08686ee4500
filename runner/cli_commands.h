// The commands behind the command line, one function each. They return an exit code (runner/cli.h),
// print results to `out` and progress to `err`, and throw Error for bad input.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace gptqb {

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
  std::vector<std::string> argv;
};

int run_command(const RunCommandOptions& options, std::ostream& out, std::ostream& err);
int plan_command(const FileOptions& options, std::ostream& out);
int rerun_command(const std::string& record, const RunCommandOptions& options, std::ostream& out,
                  std::ostream& err);
int report_command(const std::string& folder, const std::string& format, std::ostream& out,
                   std::ostream& err);
int compare_command(const std::string& old_folder, const std::string& new_folder,
                    const std::string& junit, std::ostream& out, std::ostream& err);
int list_command(const std::string& kind, std::ostream& out);
int schema_command(std::ostream& out);
int doctor_command(std::ostream& out);

}  // namespace gptqb
