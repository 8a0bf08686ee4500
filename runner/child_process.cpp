#include "runner/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/error.h"
#include "common/progress.h"

namespace gptqb {
namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 5ms;
constexpr auto kGrace = 2s;  // between asking a program to end and ending it

// Waits up to `patience`; whether the child ended, with its wait status.
bool ended_within(pid_t child, std::chrono::milliseconds patience, int& status) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (::waitpid(child, &status, WNOHANG) == child) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPoll);
  }
}

// The child leads a process group of its own, so that its children go with it.
void stop(pid_t child) {
  int status = 0;
  ::kill(-child, SIGTERM);
  if (ended_within(child, kGrace, status)) return;
  ::kill(-child, SIGKILL);
  ::waitpid(child, &status, 0);
}

std::string ending(int status) {
  if (WIFEXITED(status))
    return WEXITSTATUS(status) == 0 ? "" : "exit status " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

pid_t spawn(const std::vector<std::string>& argv, const std::filesystem::path& log) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
  ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = -1;
  const int fault = ::posix_spawnp(&child, words[0], &files, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (fault != 0)
    throw Error(argv[0], "expected a program that can be started, got '" +
                             std::string(std::strerror(fault)) +
                             "'. Give its path, or put it on PATH and make it executable");
  return child;
}

}  // namespace

std::vector<std::string> split_command(const std::string& command) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (const char letter : command) {
    if (quote != 0) {
      if (letter == quote)
        quote = 0;
      else
        words.back() += letter;
      continue;
    }
    if (letter == ' ' || letter == '\t' || letter == '\n') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (letter == '\'' || letter == '"')
      quote = letter;
    else
      words.back() += letter;
  }
  if (quote != 0) throw Error(command, std::string("expected a closing ") + quote + ", got none");
  if (words.empty()) throw Error("command", "expected a program, got an empty command");
  return words;
}

std::string run_child(const std::vector<std::string>& argv, const std::filesystem::path& log) {
  const pid_t child = spawn(argv, log);
  int status = 0;
  while (!ended_within(child, kPoll, status)) {
    if (!interrupt_requested()) continue;
    stop(child);
    throw Interrupted();
  }
  return ending(status);
}

}  // namespace gptqb
