// What Linux tells of memory under /proc.
#pragma once

#include <cstdint>
#include <string>

namespace gptqb {

// Bytes behind `name` in a file such as /proc/self/status or /proc/meminfo, whose lines are
// "VmHWM:   1234 kB". 0 if there is no such file or line.
int64_t proc_bytes(const char* file, const std::string& name);

}  // namespace gptqb
