// Looks through a packed checkpoint for everything that makes a model load and answer nonsense.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gptqb {

struct PackedReport {
  std::vector<std::string> faults;  // a line each: "[where] expected X, got Y ..."
  std::vector<std::string> notes;   // what is odd but read unambiguously
  int64_t layers = 0;               // packed linears that were looked at
};

// Every shard, tensor, shape, dtype, code, zero point, scale and index; that configuration files
// agree with each other and with the tensors; that dense tensors are finite. One fault does not
// hide the next. `checkpoint_format` as in ModelOptions. `dense`: the folder it was made from;
// empty: not compared. With it each layer's weights are held against the dense ones: what has
// another direction is another model's, and zero points that fit better when all are moved by one
// are of the other convention. Throws Error only if `dense` cannot be read.
PackedReport validate_packed(const std::filesystem::path& folder,
                             const std::string& checkpoint_format = "auto",
                             const std::filesystem::path& dense = {});

}  // namespace gptqb
