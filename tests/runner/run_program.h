// The whole program as one call, for tests of what a user sees.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "runner/cli.h"

namespace gptqb::test {

// Exit code, stdout and stderr of one command.
struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

// `args` without the program's name.
inline Outcome run_program(std::vector<std::string> args) {
  args.insert(args.begin(), "gptq-bench");
  std::ostringstream out, err;
  const int code = command_line(args, out, err);
  return {code, out.str(), err.str()};
}

}  // namespace gptqb::test
