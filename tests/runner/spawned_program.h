// The real binary in a process of its own: for tests that kill it, or look at its memory.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace gptqb::test {

class SpawnedProgram {
 public:
  // `args` without the program's name; what it prints goes to `log`.
  SpawnedProgram(std::vector<std::string> args, const std::string& log) {
    args.insert(args.begin(), GPTQB_BINARY_DIR "/bin/gptq-bench");
    std::vector<char*> words;
    for (std::string& word : args) words.push_back(word.data());
    words.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    if (::posix_spawn(&child_, words[0], &files, nullptr, words.data(), environ) != 0) child_ = -1;
    posix_spawn_file_actions_destroy(&files);
    EXPECT_GT(child_, 0) << words[0];
  }
  ~SpawnedProgram() { kill(); }
  SpawnedProgram(const SpawnedProgram&) = delete;
  SpawnedProgram& operator=(const SpawnedProgram&) = delete;

  bool running() {
    int status = 0;
    if (child_ > 0 && ::waitpid(child_, &status, WNOHANG) == child_) ended(status);
    return child_ > 0;
  }
  // Its exit code; -1 if a signal ended it.
  int wait() {
    int status = 0;
    if (child_ > 0 && ::waitpid(child_, &status, 0) == child_) ended(status);
    return code_;
  }
  pid_t pid() const { return child_; }
  void signal(int number) const { ::kill(child_, number); }
  // SIGKILL: no handler runs, nothing is flushed.
  void kill() {
    if (child_ > 0) ::kill(child_, SIGKILL);
    wait();
  }

 private:
  void ended(int status) {
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    child_ = -1;
  }

  pid_t child_ = -1;
  int code_ = -1;
};

// Runs it to its end: its exit code.
inline int run_spawned(const std::vector<std::string>& args, const std::string& log) {
  return SpawnedProgram(args, log).wait();
}

}  // namespace gptqb::test
