// Programs of the user's own, run without a shell.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gptqb {

// The words of a command line. Blanks part them; '...' and "..." keep what is between them as it
// is, and may be part of a word. Nothing else has a meaning: no variables, globs, pipes, escapes.
// Throws Error naming the command for a quote that is not closed and for a command without words.
std::vector<std::string> split_command(const std::string& command);

// How a program ended, by its wait status: "" for exit status 0, else "exit status 3", "signal 9
// (Killed)".
std::string ending_text(int status);

// Runs argv[0], looked for on PATH unless it has a slash, in the current directory and with this
// process's environment; stdin is empty, stdout and stderr go to the file `log`. Waits for its end.
// Returns "" for exit status 0, else how it ended: "exit status 3", "signal 9 (Killed)". Throws
// Error if the program cannot be started; Interrupted, after the program and its children were
// stopped, on Ctrl-C, and if it failed when this process was asked to stop too. If the calling
// thread ends before it, the program gets SIGTERM.
std::string run_child(const std::vector<std::string>& argv, const std::filesystem::path& log);

}  // namespace gptqb
