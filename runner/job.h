// A plan with all that running its cells takes, as text: what workers in other processes, on other
// machines and at other times get. The experiment file may be edited meanwhile.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/plan.h"
#include "runner/run.h"

namespace gptqb {

struct Job {
  Plan plan;
  std::string device = "cpu";    // as on the command line
  std::filesystem::path output;  // as in RunOptions
  std::filesystem::path data_root;
  std::filesystem::path base;
  bool fresh = false;
  bool verify = false;
  std::vector<std::string> argv;
};

// How cells of `job` run in this process: the memory of this machine is the limit where the plan
// names none.
RunOptions run_options(const Job& job);

// One line of JSON. Variables in paths of cells stay unexpanded, as in records. The sections that
// only steer other processes (executor) and notes are left out.
std::string job_to_json(const Job& job);

// Inverse of job_to_json; `where` names the text in messages. Throws Error for anything else.
Job job_from_json(const std::string& text, const std::string& where);

}  // namespace gptqb
