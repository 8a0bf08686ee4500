// A packed checkpoint written again with the zero points of another format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "models/packed_layer.h"

namespace gptqb {

// Reads `folder` (`checkpoint_format` as in ModelOptions) and writes `out` in `format` (kGptq or
// kGptqV2): codes, grids and indices are the same to the bit, dense tensors keep their bytes and
// dtypes, config.json its dtype, a gptq folder its settings; all other files are copied. `version`:
// this program's, for the folder's `meta`. Returns the number of layers. Throws Error: as
// PackedLinears and PackedFolderWriter; scales that float16 does not hold (bfloat16 ones of
// compressed-tensors); a zero point of 0 under kGptq; packed layers outside the blocks.
int64_t convert_packed(const std::filesystem::path& folder, const std::string& checkpoint_format,
                       const std::filesystem::path& out, PackedFormat format,
                       const std::string& version, int64_t shard_bytes = 5'000'000'000);

}  // namespace gptqb
