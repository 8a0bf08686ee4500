#include "runner/short_paths.h"

#include <algorithm>
#include <vector>

namespace gptqb {
namespace {

// Folders from the last to the first; that of an absolute path ends with an empty one.
std::vector<std::string> folders_from_the_end(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::vector<std::string> folders;
  for (;;) {
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) break;
    folders.push_back(path.substr(slash + 1));
    path.resize(slash);
  }
  folders.push_back(path);
  return folders;
}

bool same_end(const std::vector<std::string>& a, const std::vector<std::string>& b, size_t count) {
  return a.size() >= count && b.size() >= count &&
         std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count), b.begin());
}

}  // namespace

std::map<std::string, std::string> short_paths(const std::set<std::string>& paths) {
  std::map<std::string, std::vector<std::string>> folders;
  for (const std::string& path : paths) folders[path] = folders_from_the_end(path);
  std::map<std::string, std::string> result;
  for (const auto& [path, parts] : folders) {
    result[path] = path;
    std::string end;
    for (size_t count = 1; count <= parts.size(); ++count) {
      end = count == 1 ? parts[0] : parts[count - 1] + "/" + end;
      const bool shared = std::any_of(folders.begin(), folders.end(), [&](const auto& other) {
        return other.first != path && same_end(other.second, parts, count);
      });
      if (shared) continue;
      result[path] = end;
      break;
    }
  }
  return result;
}

}  // namespace gptqb
