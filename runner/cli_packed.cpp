// validate and convert: packed checkpoints as files.
#include "common/error.h"
#include "models/packed_convert.h"
#include "models/packed_validate.h"
#include "runner/build_info.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"

namespace gptqb {

int validate_command(const std::string& folder, const std::string& checkpoint_format,
                     const std::string& dense, std::ostream& out) {
  const PackedReport report = validate_packed(folder, checkpoint_format, dense);
  for (const std::string& fault : report.faults) out << fault << '\n';
  for (const std::string& note : report.notes) out << "note: " << note << '\n';
  if (!report.faults.empty()) return kExitFailed;
  out << folder << ": " << report.layers << " packed layers, no fault found\n";
  return kExitOk;
}

int convert_command(const std::string& folder, const std::string& checkpoint_format,
                    const std::string& format, const std::string& target, std::ostream& out) {
  if (format != "gptq" && format != "gptq_v2")
    throw Error("--format", "expected gptq or gptq_v2, got '" + format + "'");
  const int64_t layers = convert_packed(
      folder, checkpoint_format, target,
      format == "gptq" ? PackedFormat::kGptq : PackedFormat::kGptqV2, build_info().version);
  out << target << ": " << layers << " packed layers as " << format << '\n';
  return kExitOk;
}

}  // namespace gptqb
