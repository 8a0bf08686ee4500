// The command line: what each command does with its arguments. main.cpp adds the process (signals,
// exit code).
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace gptqb {

// Exit codes of the program.
enum ExitCode : int {
  kExitOk = 0,        // every cell is ok
  kExitFailed = 1,    // a cell failed or could not run, or a gate tripped
  kExitBadInput = 2,  // nothing was done
  kExitInterrupted = 130,
};

// Runs `args` (args[0] is the program's name). Results go to files, tables to `out`, progress and
// messages to `err`.
int command_line(const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

}  // namespace gptqb
