// `dump: [hessians]`: the Hessian of each layer as a file, for work outside this program.
#pragma once

#include <filesystem>
#include <string>

#include "methods/quantize_model.h"

namespace gptqb {

// <output>/hessians/<cell id>/<layer>.safetensors, each written atomically: the tensor `hessian`
// f32 [in, in] = 2 / sequences x the sum of x x^T, before dead-column repair and damping; metadata
// `layer`, `tokens`, `sequences`, `scale` and what it was made from.
class FileHessianSink : public HessianSink {
 public:
  // `inputs` names what the Hessians are made from beside the cell's settings, as for
  // FileResumeStore; a file of other inputs or of another build is written again.
  FileHessianSink(const std::filesystem::path& output, const std::string& cell_id,
                  std::string inputs);

  bool has(const std::string& layer) const override;
  void save(const std::string& layer, const CalibrationStats& stats) override;

  std::filesystem::path path(const std::string& layer) const;

 private:
  std::filesystem::path folder_;
  std::string inputs_;
};

}  // namespace gptqb
