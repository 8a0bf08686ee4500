// gptq-bench: the process around the command line.
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "common/progress.h"
#include "runner/cli.h"

namespace {

// The first Ctrl-C asks the work to stop between two units; a second one ends the process as usual.
void on_interrupt(int) {
  gptqb::interrupt_requested() = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  std::signal(SIGXFSZ,
              SIG_IGN);  // a write past a limit is an error with a message, not a dead process
  return gptqb::command_line(std::vector<std::string>(argv, argv + argc), std::cout, std::cerr);
}
