// The method `external` as a program: each layer's problem goes out as a file, its answer comes
// back as one. The format is documented for users in docs/external.md.
#pragma once

#include <filesystem>
#include <string>

#include "methods/external_solver.h"

namespace gptqb {

// Runs `command` once for each layer. `{input}` and `{output}` in its words become the paths of two
// safetensors files; if neither occurs, both paths are added as last words.
//
// Given (input): `weight` f32 [out, in], as loaded; `hessian` f32 [in, in] = 2 / sequences x the
// sum of x x^T over calibration tokens, neither repaired nor damped; as metadata the settings of
// `quant` and `method`, and counts. Taken (output), one of
//   codes [out, in], scales [out, groups], zeros [out, groups] and, where groups are not runs of
//     columns, g_idx [in] (group of each input), as QuantizedLinear has them; whole numbers in any
//     integer dtype, scales in any floating one
//   the same and input_transform [in] or [in, in]: y = dequantize(codes) T x
//   weight [out, in] in any floating dtype
class ExternalProgram : public ExternalSolver {
 public:
  // `folder` holds the files of the layer at hand; a layer's files are removed when its answer was
  // read, and stay for a look when it could not be used. Throws Error for a malformed command.
  ExternalProgram(const std::string& command, std::filesystem::path folder);

  // Throws Error naming the layer, the command, the end of what it printed and where its files are:
  // it cannot be started, ends with another status than 0, or leaves no answer or one with missing,
  // unknown, wrongly shaped or typed tensors, values out of range or not finite, or scales that
  // quant.scale_dtype cannot hold.
  LinearReplacement solve(const LinearProblem& problem) override;

 private:
  std::string command_;
  std::filesystem::path folder_;
};

// SHA-256 over the contents of all files that words of `command` name: another version of a
// program is another method. "" for an empty command.
std::string command_fingerprint(const std::string& command);

}  // namespace gptqb
