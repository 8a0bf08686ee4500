// The safetensors format: 8 bytes with the length of the header (little-endian u64), the header
// (JSON, padded with spaces to a multiple of 8), and the bytes of all tensors, row-major and
// little-endian, without holes.
//
// Goals: read without copying (tensors are views of a mapping), trust nothing in the header, write
// files that every other reader takes. Non-goals: sub-byte and complex dtypes, big-endian machines.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gptqb {

// One tensor as its header describes it. `begin` and `end` are byte offsets into the data after the
// header.
struct TensorInfo {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// A mapped file. Copies share the mapping; it lives as long as any of them or any tensor it gave
// out.
class SafetensorsFile {
 public:
  // Maps `path` and checks its whole header. Throws Error naming the file and, where there is one,
  // the tensor and the offset: unreadable file, shorter than its header says, malformed header,
  // duplicate name, unknown dtype, negative or overflowing shape, begin > end, size that is not
  // shape x dtype, overlap, hole, bytes that belong to no tensor. A shape with a 0 in it is legal.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  // By name, sorted.
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }
  // The block `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The tensor on the CPU, read-only: a view of the mapping (a copy only where the file leaves it
  // misaligned). Throws Error if there is none of that name.
  at::Tensor view(const std::string& name) const;

  // Gives back the memory of the pages that hold the tensor and no other one. Views stay valid: the
  // next access reads the file again, or finds it in the system's cache.
  void release_pages(const std::string& name) const;

  // SHA-256 of the header, the file's size, and 64 pages of 4096 bytes spread evenly over the data:
  // changes when another training run or another quantizer wrote the file, without reading all of
  // it.
  std::string fingerprint() const;

 private:
  class Mapping;

  std::filesystem::path path_;
  std::shared_ptr<const Mapping> mapping_;
  uint64_t data_offset_ = 0;
  std::map<std::string, TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

// The name a header uses for `dtype` ("F16"). Throws Error for dtypes that the format or this
// reader lacks.
std::string safetensors_dtype_name(at::ScalarType dtype);

// Writes CPU tensors atomically: to a temporary file beside `path`, fsync, rename. The metadata
// gets `format: pt` unless it names a format; tensors are laid out by falling element size, then
// name, so that each is aligned. On any fault the temporary file is removed, `path` keeps its old
// content and Error names path and reason.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, at::Tensor>& tensors,
                       std::map<std::string, std::string> metadata = {});

}  // namespace gptqb
