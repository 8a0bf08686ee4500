// Whether a packed checkpoint can be written at a path: asked before any work, and again before it
// takes the name.
#pragma once

#include <cstdint>
#include <filesystem>

namespace gptqb {

// Whether a file of the dense folder `source` goes along unchanged (tokenizer, generation): no
// weights in any form, and none of the files that are written anew.
bool is_copied_along(const std::filesystem::path& file);

// Throws Error: `path` is there and no folder that this program packed, or it holds files that
// would be lost with it; those that come again from `source` (empty: none) are no reason.
void check_replaceable(const std::filesystem::path& path, const std::filesystem::path& source);

// The same, and all else that ClaimedFolder and the first file would run into, as far as it can be
// told without another run: what is in the way under the temporary name, a parent that is no folder
// or where nothing can be made. Leaves nothing behind. Throws Error.
void check_save_target(const std::filesystem::path& path, const std::filesystem::path& source);

// The folder under this name while it is written: `path`.incomplete.
std::filesystem::path temporary_name(std::filesystem::path path);

// Bytes that a checkpoint at `path` may take: free on its file system, and what an interrupted run
// left, which is removed first.
int64_t room_for_checkpoint(const std::filesystem::path& path);

}  // namespace gptqb
