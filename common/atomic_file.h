// Files that are either the old version or the new one, never half of either.
#pragma once

#include <filesystem>
#include <string_view>

namespace gptqb {

// Writes `content` to a temporary file beside `path`, flushes it to disk (fsync) and renames it
// over `path`; parent folders are made. On any fault (disk full, no permission) the temporary file
// is removed, `path` keeps its old content and Error names the path, the step and the system's
// reason.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Makes names that were given in `folder` survive a power cut. Some file systems cannot sync a
// folder: nothing more is done then.
void sync_folder(const std::filesystem::path& folder);

// The whole file. Throws Error naming the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

}  // namespace gptqb
