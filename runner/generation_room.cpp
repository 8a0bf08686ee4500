#include "runner/generation_room.h"

#include "common/error.h"
#include "runner/held_memory.h"
#include "runner/report/number_format.h"

namespace gptqb {
namespace {

std::string size(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

}  // namespace

void require_room(const GenerationMemory& memory, at::Device device, std::optional<int64_t> limit,
                  const std::string& advice) {
  const int64_t free = free_bytes(device);
  const bool limited = limit && (free == 0 || *limit < free);
  const int64_t room = limited ? *limit : free;
  if (room == 0 || memory.total() <= room) return;
  throw Error("memory of " + device.str(),
              "expected room for " + std::to_string(memory.total()) + " bytes, " +
                  size(memory.total()) + " (weights " + size(memory.weights) +
                  ", cache of keys and values " + size(memory.cache) + ", activations " +
                  size(memory.activations) + "), got " + std::to_string(room) + " bytes, " +
                  size(room) + (limited ? ", the limit that was set. " : " free. ") + advice);
}

}  // namespace gptqb
