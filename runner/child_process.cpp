#include "runner/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
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
// Between the end of a program by a signal and that signal's arrival here, where both got it.
constexpr auto kSameSignal = 500ms;

// Whether this process is asked to stop, or soon will be.
bool interrupted_within(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!interrupt_requested() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kPoll);
  return interrupt_requested();
}

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

// The child between its birth and the program: it borrows this process's memory, so it makes system
// calls and nothing else. `fault` gets the errno of one that failed.
[[noreturn]] void become(char* const* words, const char* log, pid_t parent, volatile int* fault) {
  ::setpgid(0, 0);
  // A harness that is killed takes its program along: SIGTERM, which `timeout` and its like pass
  // on.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // killed before that was asked for
  const int input = ::open("/dev/null", O_RDONLY);
  const int output = ::open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
  if (::dup2(input, STDIN_FILENO) >= 0 && ::dup2(output, STDOUT_FILENO) >= 0 &&
      ::dup2(output, STDERR_FILENO) >= 0) {
    if (input > STDERR_FILENO) ::close(input);
    if (output > STDERR_FILENO) ::close(output);
    ::execvp(words[0], words);
  }
  *fault = errno;
  ::_exit(127);
}

// vfork, as posix_spawn does it: no copy of the page tables of a process that holds a model.
// posix_spawn itself cannot ask for a signal on the parent's death.
pid_t spawn(const std::vector<std::string>& argv, const std::filesystem::path& log) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t self = ::getpid();
  volatile int fault = 0;
  const pid_t child = ::vfork();
  if (child == 0) become(words.data(), log.c_str(), self, &fault);
  if (child < 0) fault = errno;
  if (fault != 0) {
    if (child > 0) ::waitpid(child, nullptr, 0);
    throw Error(argv[0], "expected a program that can be started, got '" +
                             std::string(std::strerror(fault)) +
                             "'. Give its path, or put it on PATH and make it executable");
  }
  return child;
}

}  // namespace

std::string ending_text(int status) {
  if (WIFEXITED(status))
    return WEXITSTATUS(status) == 0 ? "" : "exit status " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

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
  // A program that was told to stop together with this process has not failed.
  const bool signalled =
      WIFSIGNALED(status) && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT);
  if (status != 0 && interrupted_within(signalled ? kSameSignal : 0ms)) throw Interrupted();
  return ending_text(status);
}

}  // namespace gptqb
