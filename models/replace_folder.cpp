#include "models/replace_folder.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "common/error.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& target, const std::error_code& reason) {
  throw Error(target.string(), "cannot give the finished folder this name: " + reason.message());
}

fs::path free_name(const fs::path& target) {
  fs::path name = target.string() + ".previous";
  for (int i = 2; fs::exists(fs::symlink_status(name)); ++i)
    name = target.string() + ".previous" + std::to_string(i);
  return name;
}

}  // namespace

int exchange_names(const fs::path& a, const fs::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
}

fs::path replace_folder(const fs::path& finished, const fs::path& target,
                        const ExchangeNames& exchange) {
  const int code = exchange(finished, target);
  if (code == 0) return finished;
  if (code != EINVAL && code != ENOSYS && code != ENOTSUP)
    fail(target, std::error_code(code, std::generic_category()));
  const fs::path previous = free_name(target);
  std::error_code failed;
  fs::rename(target, previous, failed);
  if (failed) fail(target, failed);
  fs::rename(finished, target, failed);
  if (!failed) return previous;
  std::error_code ignored;
  fs::rename(previous, target, ignored);
  fail(target, failed);
}

}  // namespace gptqb
