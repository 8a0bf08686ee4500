#include "runner/piped_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/error.h"

namespace gptqb {
namespace {

std::vector<std::string> environment_with(const std::map<std::string, std::string>& changed) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (changed.count(text.substr(0, text.find('='))) == 0) result.push_back(text);
  }
  for (const auto& [name, value] : changed) {
    std::string text = name;
    text += '=';
    text += value;
    result.push_back(std::move(text));
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void fail(const std::string& program, int code) {
  throw Error(program, "expected a program that can be started, got '" +
                           std::string(std::strerror(code)) + "'");
}

}  // namespace

std::optional<std::string> LineBuffer::next() {
  const size_t end = text_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return line;
}

PipedProgram::PipedProgram(const std::vector<std::string>& argv,
                           const std::map<std::string, std::string>& environment) {
  std::vector<std::string> words = argv, variables = environment_with(environment);
  // A socket, since writing to one whose reader is gone need not raise SIGPIPE.
  int input[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1};
  int code = 0;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) != 0 ||
      ::pipe2(output, O_CLOEXEC) != 0 || ::pipe2(errors, O_CLOEXEC) != 0)
    code = errno;
  if (code == 0) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, output[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, errors[1], STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    code = ::posix_spawnp(&child_, words[0].c_str(), &files, &attributes, pointers(words).data(),
                          pointers(variables).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
  }
  for (const int theirs : {input[1], output[1], errors[1]})
    if (theirs >= 0) ::close(theirs);
  if (code != 0) {
    for (const int ours : {input[0], output[0], errors[0]})
      if (ours >= 0) ::close(ours);
    fail(argv[0], code);
  }
  input_ = input[0];
  output_ = output[0];
  errors_ = errors[0];
  for (const int ours : {output_, errors_}) ::fcntl(ours, F_SETFL, O_NONBLOCK);
}

PipedProgram::~PipedProgram() {
  if (!ended()) {
    signal(SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  close_input();
  ::close(output_);
  ::close(errors_);
}

void PipedProgram::say(const std::string& line) {
  if (input_ < 0) return;
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::send(input_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // it has ended, which ended() tells
    sent += static_cast<size_t>(count);
  }
}

void PipedProgram::close_input() {
  if (input_ >= 0) ::close(input_);
  input_ = -1;
}

std::string PipedProgram::read_available(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

void PipedProgram::signal(int number) const {
  if (!status_) ::kill(-child_, number);
}

std::optional<int> PipedProgram::ended() {
  int status = 0;
  if (!status_ && ::waitpid(child_, &status, WNOHANG) == child_) status_ = status;
  return status_;
}

ProgramResult run_captured(const std::vector<std::string>& argv) {
  PipedProgram program(argv, {});
  program.close_input();
  ProgramResult result;
  for (;;) {
    const std::optional<int> status = program.ended();
    std::array<pollfd, 2> news = {pollfd{program.output(), POLLIN, 0},
                                  pollfd{program.errors(), POLLIN, 0}};
    if (!status) ::poll(news.data(), news.size(), 5);
    result.output += PipedProgram::read_available(program.output());
    result.errors += PipedProgram::read_available(program.errors());
    if (!status) continue;
    result.status = *status;
    return result;
  }
}

}  // namespace gptqb
