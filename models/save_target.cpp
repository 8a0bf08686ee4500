#include "models/save_target.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "common/error.h"
#include "models/claimed_folder.h"
#include "models/packed_producer.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

// Of a packed folder, whatever model it is of.
bool is_written(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".index.json") || name == "config.json" ||
         name == "quantize_config.json" || name == kWritingMarker;
}

// "folder" of "folder/".
fs::path without_slash(fs::path path) {
  return path.filename().empty() ? path.parent_path() : path;
}

// The folder that is there already, of those that `path` lies in.
fs::path parent_that_exists(const fs::path& path) {
  std::error_code ignored;
  fs::path parent = fs::absolute(path).lexically_normal();
  do parent = parent.parent_path();
  while (!fs::exists(fs::symlink_status(parent, ignored)) && parent.has_relative_path());
  return parent;
}

}  // namespace

bool is_copied_along(const fs::path& file) {
  constexpr std::array kWeights = {".safetensors", ".bin",  ".pt", ".pth",    ".ckpt",
                                   ".gguf",        ".onnx", ".h5", ".msgpack"};
  const std::string name = file.filename().string();
  if (name.ends_with(".index.json") || name == "config.json" || name == "quantize_config.json" ||
      name == "quant_config.json" || name == kWritingMarker)
    return false;
  return std::find(kWeights.begin(), kWeights.end(), file.extension().string()) == kWeights.end();
}

void check_replaceable(const fs::path& path, const fs::path& source) {
  if (!fs::exists(fs::symlink_status(path))) return;
  if (!own_settings(path))
    throw Error(path.string(),
                "expected a path where nothing is, or a folder that gptq-bench packed, got "
                "something else. Choose another save.path, or remove it");
  for (const auto& entry : fs::directory_iterator(path)) {
    const fs::path name = entry.path().filename();
    const bool copied =
        !source.empty() && is_copied_along(name) && fs::is_regular_file(source / name);
    if (entry.is_regular_file() && (is_written(name.string()) || copied)) continue;
    throw Error(entry.path().string(),
                "expected only files that this program writes anew in a folder that it replaces, "
                "got one of yours. Move it away, or choose another save.path");
  }
}

fs::path temporary_name(fs::path path) {
  return without_slash(std::move(path)).string() + ".incomplete";
}

void check_save_target(const fs::path& path, const fs::path& source) {
  const fs::path folder = without_slash(path);
  const fs::path parent = parent_that_exists(folder);
  if (!fs::is_directory(parent))
    throw Error(folder.string(), "expected a folder as parent, got " + parent.string() +
                                     ", which is none. Choose another save.path");
  check_replaceable(folder, source);
  check_begun_here(temporary_name(folder));
  // Asked of the system by doing it: rights, mounts and quotas are more than permission bits.
  std::string probe = (parent / ".gptq-bench-XXXXXX").string();
  if (::mkdtemp(probe.data()) == nullptr)
    throw Error(folder.string(), "cannot make a folder in " + parent.string() + ": " +
                                     std::strerror(errno) + ". Choose another save.path");
  ::rmdir(probe.c_str());
}

int64_t room_for_checkpoint(const fs::path& path) {
  std::error_code failed;
  const fs::space_info space = fs::space(parent_that_exists(without_slash(path)), failed);
  if (failed) return INT64_MAX;
  auto bytes = static_cast<int64_t>(
      std::min<uintmax_t>(space.available, static_cast<uintmax_t>(INT64_MAX) / 2));
  for (const auto& entry : fs::directory_iterator(temporary_name(path), failed))
    if (const uintmax_t size = entry.file_size(failed); !failed)
      bytes += static_cast<int64_t>(size);
  return bytes;
}

}  // namespace gptqb
