#include "common/proc_bytes.h"

#include <cstdlib>
#include <fstream>

namespace gptqb {

int64_t proc_bytes(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ":"))
      return std::strtoll(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  return 0;
}

}  // namespace gptqb
