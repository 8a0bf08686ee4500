#include "runner/hessian_dump.h"

#include "common/error.h"
#include "models/safetensors.h"
#include "runner/build_info.h"

namespace gptqb {

FileHessianSink::FileHessianSink(const std::filesystem::path& output, const std::string& cell_id,
                                 std::string inputs)
    : folder_(output / "hessians" / cell_id), inputs_(std::move(inputs)) {}

std::filesystem::path FileHessianSink::path(const std::string& layer) const {
  return folder_ / (layer + ".safetensors");
}

bool FileHessianSink::has(const std::string& layer) const {
  if (!std::filesystem::exists(path(layer))) return false;
  try {
    const SafetensorsFile file(path(layer));
    const auto is = [&](const char* key, const std::string& value) {
      const auto found = file.metadata().find(key);
      return found != file.metadata().end() && found->second == value;
    };
    return file.tensors().contains("hessian") && is("build_id", build_id()) &&
           is("inputs", inputs_);
  } catch (const Error&) {
    return false;  // damaged: it is written again
  }
}

void FileHessianSink::save(const std::string& layer, const CalibrationStats& stats) {
  write_safetensors(path(layer), {{"hessian", stats.hessian().cpu().contiguous()}},
                    {{"layer", layer},
                     {"tokens", std::to_string(stats.tokens())},
                     {"sequences", std::to_string(stats.sequences())},
                     {"scale", "2 / sequences"},
                     {"build_id", build_id()},
                     {"inputs", inputs_}});
}

}  // namespace gptqb
