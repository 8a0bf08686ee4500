#include "runner/output_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "common/error.h"
#include "common/hash.h"

namespace gptqb {
namespace {

constexpr const char* kFile = ".lock";

std::string reason(int code) { return std::generic_category().message(code); }

// 60 bits of a hash: that two names of one folder fall on one byte is next to impossible, and would
// only make one wait for the other.
int64_t byte_of(const std::string& name) {
  return static_cast<int64_t>(std::stoull(sha256_hex(name).substr(0, 15), nullptr, 16));
}

struct flock range(short type, int64_t byte) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

}  // namespace

bool OutputLock::is_used_in(const std::filesystem::path& output) {
  return std::filesystem::exists(output / kFile);
}

OutputLock::OutputLock(const std::filesystem::path& output) : path_(output / kFile) {
  std::error_code made;
  std::filesystem::create_directories(output, made);
  if (made)
    throw Error(output.string(), "expected to make this folder, got '" + made.message() + "'");
  const int descriptor = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0)
    throw Error(path_.string(), "expected to open the lock file, got '" + reason(errno) + "'");
  file_ = std::shared_ptr<int>(new int(descriptor), [](int* file) {
    ::close(*file);
    delete file;
  });
}

// Locks of the open file, not of the process: those would go when any descriptor of the file is
// closed, and two runs in one process would share them.
bool OutputLock::take(int64_t byte, bool wait) const {
  struct flock lock = range(F_WRLCK, byte);
  while (::fcntl(*file_, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return false;
    throw Error(path_.string(), "expected to lock a byte of it, got '" + reason(errno) +
                                    "'. Take an --output on a file system with locks");
  }
  return true;
}

std::optional<OutputLock::Held> OutputLock::try_name(const std::string& name) const {
  const int64_t byte = byte_of(name);
  if (!take(byte, false)) return std::nullopt;
  return Held(file_, byte);
}

OutputLock::Held OutputLock::wait_name(const std::string& name) const {
  const int64_t byte = byte_of(name);
  take(byte, true);
  return Held(file_, byte);
}

OutputLock::Held::~Held() {
  if (!file_) return;
  struct flock lock = range(F_UNLCK, byte_);
  ::fcntl(*file_, F_OFD_SETLK, &lock);
}

}  // namespace gptqb
