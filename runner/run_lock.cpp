#include "runner/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "common/error.h"

namespace gptqb {
namespace {

std::string reason(int code) { return std::generic_category().message(code); }

// The process id in the lock file; "?" if its owner has not written it yet.
std::string owner_of(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size() - 1, 0);
  std::string owner(text.data(), count > 0 ? static_cast<size_t>(count) : 0);
  while (!owner.empty() && owner.back() == '\n') owner.pop_back();
  return owner.empty() ? std::string("?") : owner;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& output) {
  const std::filesystem::path path = output / ".lock";
  std::error_code made;
  std::filesystem::create_directories(output, made);
  if (made)
    throw Error(output.string(), "expected to make this folder, got '" + made.message() + "'");
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    throw Error(path.string(), "expected to open the lock file, got '" + reason(errno) + "'");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int code = errno;
    const std::string owner = owner_of(descriptor_);
    ::close(descriptor_);
    if (code != EWOULDBLOCK)
      throw Error(path.string(), "expected to lock it, got '" + reason(code) + "'");
    throw Error(output.string(),
                "expected an output folder that no other run uses, got one that "
                "process " +
                    owner +
                    " is writing to. Wait for it, or give another "
                    "--output");
  }
  const std::string id = std::to_string(::getpid()) + "\n";
  // Only for the message above: that it is held does not depend on it.
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, id.data(), id.size(), 0) < 0)
    return;
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace gptqb
