// A replaced linear as it waits in host memory and on disk: codes packed to the bits they have.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>

#include "methods/linear_replacement.h"

namespace gptqb {

// Codes u8 of any shape, each below 2^bits, as u8 [bytes] on the same device: of 8 codes `bits`
// bytes, the last ones padded with zeros; 8 bits stay as they are. Ternary codes take 2 bits.
at::Tensor pack_codes(const at::Tensor& codes, int64_t bits);
// The inverse: `count` codes, u8 [count].
at::Tensor unpack_codes(const at::Tensor& packed, int64_t bits, int64_t count);

struct KeptLinear {
  // Those of LinearReplacement::tensors(), on the host; in place of "codes" there is "packed".
  std::map<std::string, at::Tensor> tensors;
  int64_t bits =
      0;  // of the codes, if there are any, and their group size and shape [rows, columns]
  int64_t group_size = -1;
  int64_t rows = 0;
  int64_t columns = 0;

  KeptLinear() = default;
  // Packs on the replacement's device.
  KeptLinear(const LinearReplacement& replacement) : KeptLinear(replacement, false) {}
  // The same for a short while: from a GPU the copies are only queued, into pinned memory, so that
  // nobody waits for them. Synchronize the device before they are read.
  static KeptLinear queued(const LinearReplacement& replacement) { return {replacement, true}; }

  // On `device`, unpacked there. Throws Error if there are too few packed bytes for the shape; what
  // else may be wrong with tensors from a file, validate() says.
  LinearReplacement replacement(at::Device device = at::kCPU) const;

  // Throws Error as LinearReplacement::validate() of the linear that it unpacks to, which it does
  // not: a check takes no memory to speak of.
  void validate(const std::string& where) const;

 private:
  KeptLinear(const LinearReplacement& replacement, bool is_queued);
};

}  // namespace gptqb
