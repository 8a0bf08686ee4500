#include "runner/slurm_client.h"

#include <unistd.h>

#include <sstream>

#include "common/error.h"
#include "common/text.h"
#include "runner/child_process.h"
#include "runner/piped_program.h"

namespace gptqb::slurm {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// The value behind `key=` in what scontrol prints; "" if there is none.
std::string field(const std::string& text, const std::string& key) {
  size_t start = text.find(" " + key + "=");
  if (start == std::string::npos) return "";
  start += key.size() + 2;
  return text.substr(start, text.find_first_of(" \n", start) - start);
}

}  // namespace

std::string submit(const ExecutorSettings& settings, bool works,
                   const std::vector<std::string>& options,
                   const std::vector<std::string>& script) {
  std::vector<std::string> words = {"sbatch"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back(std::string(option) + value);
  };
  add("--partition=", settings.partition);
  add("--time=", settings.time);
  if (works) add("--gres=", settings.gres);
  words.insert(words.end(), settings.extra.begin(), settings.extra.end());
  words.emplace_back("--parsable");
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), script.begin(), script.end());
  const ProgramResult result = run_captured(words);
  if (const std::string ended = ending_text(result.status); !ended.empty())
    throw Error("sbatch", "expected a job's id, got " + ended + ": " + trimmed(result.errors) +
                              ". The command was: " + join(words, " "));
  // "ID" or "ID;CLUSTER"
  const std::string line = trimmed(result.output);
  return line.substr(0, line.find(';'));
}

Queue queue() {
  const ProgramResult result =
      run_captured({"squeue", "--noheader", "--array", "--user=" + std::to_string(::geteuid()),
                    "--format=%F|%K|%T|%r|%j"});
  if (const std::string ended = ending_text(result.status); !ended.empty())
    return {{}, ended + ": " + trimmed(result.errors)};
  Queue queue;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    Queued task;
    std::getline(parts, task.job, '|');
    std::getline(parts, task.task, '|');
    std::getline(parts, task.state, '|');
    std::getline(parts, task.reason, '|');
    std::getline(parts, task.name);
    queue.tasks.push_back(std::move(task));
  }
  return queue;
}

std::string ending(const std::string& job, const std::string& task) {
  const ProgramResult result =
      run_captured({"scontrol", "--oneliner", "show", "job", job + "_" + task});
  const std::string state = field(result.output, "JobState");
  if (state.empty()) return "";
  return state + ", exit code " + field(result.output, "ExitCode");
}

std::string cancel(const std::vector<std::string>& jobs) {
  if (jobs.empty()) return "";
  std::vector<std::string> words = {"scancel"};
  words.insert(words.end(), jobs.begin(), jobs.end());
  return trimmed(run_captured(words).errors);
}

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char letter : text) {
    if (letter == '\'')
      word += "'\\''";
    else
      word += letter;
  }
  return word + "'";
}

std::string output_pattern(const std::string& path) {
  std::string pattern;
  for (const char letter : path) {
    if (letter == '\\')
      throw Error(path,
                  "expected an output folder without a backslash, which Slurm cannot write "
                  "to, got one");
    if (letter == '%') pattern += '%';
    pattern += letter;
  }
  return pattern;
}

}  // namespace gptqb::slurm
