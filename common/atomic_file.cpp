#include "common/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "common/error.h"

namespace gptqb {
namespace {

std::string reason(int code) { return std::generic_category().message(code); }

// A file descriptor that is closed on every way out.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }
  // close() reports write errors that network file systems deferred.
  int close() {
    const int result = ::close(value_);
    value_ = -1;
    return result;
  }

 private:
  int value_;
};

// Removes the temporary file unless it became the real one.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    if (!kept_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& step, int code) {
  throw Error(path.string(), "expected to " + step + ", got '" + reason(code) +
                                 "'. The file is as it was before; make room or permission and "
                                 "run the same command again");
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.parent_path() / ("." + path.filename().string() + ".tmp." +
                               std::to_string(::getpid()) + "." + std::to_string(counter++));
}

void write_all(int descriptor, std::string_view content, const std::filesystem::path& path) {
  const std::string step = "write " + std::to_string(content.size()) + " bytes";
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, step, errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) ::fsync(descriptor.get());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::error_code made;
  std::filesystem::create_directories(folder, made);
  if (made) fail(path, "make the folder " + folder.string(), made.value());

  TemporaryFile temporary(temporary_name(path));
  Descriptor descriptor(
      ::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (descriptor.get() < 0) {
    const int code = errno;
    temporary.keep();
    fail(path, "make a temporary file beside it", code);
  }
  write_all(descriptor.get(), content, path);
  if (::fsync(descriptor.get()) != 0) fail(path, "flush it to disk", errno);
  if (descriptor.close() != 0) fail(path, "close it", errno);
  if (::rename(temporary.path().c_str(), path.c_str()) != 0)
    fail(path, "rename the temporary file over it", errno);
  temporary.keep();
  sync_folder(folder);  // the data is safe without it too
}

std::string read_file(const std::filesystem::path& path) {
  const auto refuse = [&](int code) {
    throw Error(path.string(), "expected a readable file, got '" + reason(code) + "'");
  };
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) refuse(errno);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) refuse(errno);
  std::string content;
  if (status.st_size > 0) content.reserve(static_cast<size_t>(status.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ::read(descriptor.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(errno);
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace gptqb
