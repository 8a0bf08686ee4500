// A program beside this one, talked to over pipes.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gptqb {

// Text that arrives in pieces.
class LineBuffer {
 public:
  void add(const std::string& piece) { text_ += piece; }
  // The next whole line, without its end; empty if there is none yet.
  std::optional<std::string> next();
  // What came behind the last whole line.
  const std::string& rest() const { return text_; }

 private:
  std::string text_;
};

class PipedProgram {
 public:
  // Starts argv[0], looked for on PATH unless it has a slash, with this process's environment in
  // which `environment` replaces variables; in a process group of its own, so that a terminal's
  // Ctrl-C does not reach it. Throws Error if it cannot be started.
  PipedProgram(const std::vector<std::string>& argv,
               const std::map<std::string, std::string>& environment);
  // Kills it with its group, if it still runs.
  ~PipedProgram();
  PipedProgram(const PipedProgram&) = delete;
  PipedProgram& operator=(const PipedProgram&) = delete;

  // A line for its stdin; one that has ended gets none.
  void say(const std::string& line);
  void close_input();

  // Of its stdout and stderr, for poll().
  int output() const { return output_; }
  int errors() const { return errors_; }
  // What is there by now, without waiting; "" if nothing is, or the pipe has ended.
  static std::string read_available(int descriptor);

  void signal(int number) const;
  // Its wait status, once it has ended.
  std::optional<int> ended();

 private:
  pid_t child_ = -1;
  int input_ = -1;
  int output_ = -1;
  int errors_ = -1;
  std::optional<int> status_;
};

struct ProgramResult {
  int status = 0;  // wait status
  std::string output;
  std::string errors;
};

// Runs a program that ends soon to its end, with an empty stdin.
ProgramResult run_captured(const std::vector<std::string>& argv);

}  // namespace gptqb
