// Text files, plain or compressed, read in pieces.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace gptqb {

// Hands the uncompressed bytes of `path` to `sink`, piece by piece and in order. The ending of the
// name decides: .gz (zlib), .xz (liblzma), .zst (libzstd), each also with several members in a row;
// anything else is taken as it is. Throws Error naming the path and the system's reason, the byte
// offset in the compressed file where it is damaged or ends too soon, or the library that this
// build lacks.
void read_uncompressed(const std::filesystem::path& path,
                       const std::function<void(std::string_view)>& sink);

}  // namespace gptqb
