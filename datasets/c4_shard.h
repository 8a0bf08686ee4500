// One shard of C4 `en`: what its two protocols share.
#pragma once

#include <filesystem>
#include <limits>
#include <string>

#include "datasets/dataset.h"

namespace gptqb {

// "train": shard 00000 of 01024; "validation": shard 00000 of 00008.
std::vector<std::string> c4_splits();

// The first `max_documents` documents of the shard. Label and files are set, the protocol is left
// to the caller.
Corpus load_c4(const std::string& name, const std::string& split,
               const std::filesystem::path& data_root,
               int64_t max_documents = std::numeric_limits<int64_t>::max());

// Calibration of both protocols: random documents of the train shard (protocol.md section 1).
Corpus load_c4_calibration(const std::string& name, const std::string& split,
                           const std::filesystem::path& data_root);

}  // namespace gptqb
