// Giving a finished folder the name of an older one.
#pragma once

#include <filesystem>
#include <functional>

namespace gptqb {

// Swaps two names in one step; returns 0, or errno.
using ExchangeNames =
    std::function<int(const std::filesystem::path&, const std::filesystem::path&)>;
int exchange_names(const std::filesystem::path& a, const std::filesystem::path& b);

// `finished` becomes `target`, which is there. Returns where the old one is now. Where the file
// system cannot exchange names (NFS, FUSE), the old folder becomes `target`.previous first (with a
// number if that is taken), and for a moment there is none. Throws Error; both are left then under
// the names they had.
std::filesystem::path replace_folder(const std::filesystem::path& finished,
                                     const std::filesystem::path& target,
                                     const ExchangeNames& exchange = exchange_names);

}  // namespace gptqb
