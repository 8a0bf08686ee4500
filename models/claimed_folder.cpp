#include "models/claimed_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "common/error.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

// Whether `path` still is the file that was opened: the run that held it may have removed it.
bool is_file(const fs::path& path, int descriptor) {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

void check_begun_here(const fs::path& folder) {
  std::error_code failed;
  const fs::file_status status = fs::symlink_status(folder, failed);
  if (status.type() == fs::file_type::not_found) return;
  const bool plain = fs::is_directory(status);
  // Empty: killed before the marker was there.
  if (plain && (fs::exists(folder / kWritingMarker, failed) || fs::is_empty(folder, failed)))
    return;
  throw Error(
      folder.string(),
      "expected nothing, or what an interrupted run of gptq-bench left, got something else. "
      "Move it away, or choose another save.path");
}

ClaimedFolder::ClaimedFolder(fs::path folder) : folder_(std::move(folder)) {
  check_begun_here(folder_);
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) throw Error(folder_.string(), "cannot make this folder: " + failed.message());
  const fs::path marker = folder_ / kWritingMarker;
  descriptor_ = ::open(marker.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0)
    throw Error(marker.string(), std::string("cannot create: ") + std::strerror(errno));
  const bool locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  const int code = locked ? EWOULDBLOCK : errno;
  if (!locked || !is_file(marker, descriptor_)) {
    ::close(descriptor_);
    if (code != EWOULDBLOCK)
      throw Error(marker.string(), std::string("cannot lock: ") + std::strerror(code));
    throw Error(folder_.string(),
                "expected no other run that writes here, got one. Wait for it, or choose another "
                "save.path");
  }
  for (const auto& entry : fs::directory_iterator(folder_, failed))
    if (entry.path() != marker && !failed) fs::remove_all(entry.path(), failed);
  if (failed) {
    ::close(descriptor_);
    throw Error(folder_.string(), "cannot empty this folder: " + failed.message());
  }
}

ClaimedFolder::~ClaimedFolder() {
  std::error_code ignored;
  if (marked_) fs::remove_all(folder_, ignored);
  ::close(descriptor_);
}

void ClaimedFolder::move_marker(const fs::path& other) {
  std::error_code failed;
  fs::rename(folder_ / kWritingMarker, other / kWritingMarker, failed);
  if (failed)
    throw Error(other.string(), "cannot mark this folder as replaced: " + failed.message());
  marked_ = false;
}

void ClaimedFolder::remove_marker() {
  std::error_code failed;
  fs::remove(folder_ / kWritingMarker, failed);
  if (failed) throw Error(folder_.string(), "cannot remove the marker: " + failed.message());
  marked_ = false;
}

}  // namespace gptqb
