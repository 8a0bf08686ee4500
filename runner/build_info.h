// What this program was built from, as every record, `--version` and `doctor` tell it.
#pragma once

#include <string>

namespace gptqb {

// Members in the order in which cmake/WriteBuildInfo.cmake lists them.
struct BuildInfo {
  std::string version;
  std::string commit;  // full hash, or "unknown" outside git
  bool dirty = false;  // tracked files differed from the commit
  std::string compiler;
  std::string flags;
  std::string torch;
  std::string cuda;                // nvcc's version; empty: built without CUDA
  std::string cuda_architectures;  // "80 90a-real"; empty: built without CUDA

  bool operator==(const BuildInfo&) const = default;
};

const BuildInfo& build_info();

// Identity of the program for reusing results. A clean build is its commit, compiler, flags and
// libraries; a dirty one, or one without a commit, is the SHA-256 of the running executable, since
// its commit does not say what was built.
const std::string& build_id();

// The commit, and whether what was built differs from it: "0123abc with changes".
std::string commit_text(const BuildInfo& build);

// "gptq-bench 0.1.0 (commit 0123456789ab, GNU-12.2.0, torch 2.11.0, without CUDA)".
std::string version_line(const BuildInfo& build = build_info());

}  // namespace gptqb
