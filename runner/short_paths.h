// Paths as tables show them.
#pragma once

#include <map>
#include <set>
#include <string>

namespace gptqb {

// For each path its shortest trailing part, in whole folders, that no other of them ends with:
// "opt-125m" of "/data/models/opt-125m", but "a/m" and "b/m" of "/x/a/m" and "/x/b/m". A path that
// another one ends with stays whole; an empty one stays empty.
std::map<std::string, std::string> short_paths(const std::set<std::string>& paths);

}  // namespace gptqb
