#include "runner/build_info.h"

#include "common/atomic_file.h"
#include "common/hash.h"

namespace gptqb {
namespace {

std::string identify(const BuildInfo& build) {
  if (build.dirty || build.commit == "unknown")
    return "executable " + sha256_hex(read_file("/proc/self/exe"));
  const std::string tools = build.compiler + "\n" + build.flags + "\n" + build.torch + "\n" +
                            build.cuda + "\n" + build.cuda_architectures;
  return "commit " + build.commit + " tools " + sha256_hex(tools).substr(0, 16);
}

}  // namespace

const BuildInfo& build_info() {
  static const BuildInfo info{
#include "build_info.inc"
  };
  return info;
}

const std::string& build_id() {
  static const std::string id = identify(build_info());
  return id;
}

std::string commit_text(const BuildInfo& build) {
  return build.commit + (build.dirty ? " with changes" : "");
}

std::string version_line(const BuildInfo& build) {
  const std::string commit = build.commit == "unknown" ? build.commit : build.commit.substr(0, 12);
  return "gptq-bench " + build.version + " (commit " + commit +
         (build.dirty ? " with changes" : "") + ", " + build.compiler + ", torch " + build.torch +
         ", " +
         (build.cuda.empty() ? "without CUDA"
                             : "CUDA " + build.cuda + " for " + build.cuda_architectures) +
         ")";
}

}  // namespace gptqb
