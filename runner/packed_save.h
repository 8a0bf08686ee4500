// `save`: the packed checkpoint of a quantized cell, written block by block beside the solver, read
// back and held against the model that is evaluated.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "methods/resume_store.h"
#include "models/causal_lm.h"
#include "models/packed_folder_writer.h"
#include "runner/cell.h"
#include "runner/save_settings.h"

namespace gptqb {

// Folder of a cell's checkpoint; relative paths start at `base`.
std::filesystem::path save_folder(const SaveSettings& save, const Cell& cell,
                                  const std::filesystem::path& base);

// Whether that folder is complete, opens as a model and holds this cell's checkpoint of the model
// with fingerprint `source`, in the format and shard size asked for.
bool is_saved(const SaveSettings& save, const Cell& cell, const std::filesystem::path& base,
              const std::string& source);

// What the folder says of its quantization, in both of its files, once all layers were added.
// `source`: fingerprint of the model that was quantized.
nlohmann::ordered_json quantization_settings(const Cell& cell, const PackedFolderWriter& writer,
                                             const std::string& source);

// Passes finished blocks to the writer, and on to `kept` where blocks are kept for resuming.
class SavingStore : public ResumeStore {
 public:
  // `kept` may be null: nothing is kept. All must live longer.
  SavingStore(ResumeStore* kept, PackedFolderWriter& writer, const CausalLm& model)
      : kept_(kept), writer_(writer), model_(model) {}

  // A block kept by an earlier run is written too.
  std::optional<FinishedBlock> load(int64_t block) override;
  void save(int64_t block, const FinishedBlock& finished) override;
  std::map<std::string, KeptLinear> linears(int64_t block) override;

  // Hash of each written layer's scales, zero points and index, before they were packed.
  const std::map<std::string, std::string>& grids() const { return grids_; }

 private:
  void write(int64_t block, const FinishedBlock& finished);
  // Scales that moved are written with the norms and biases that they moved into. Throws Error
  // where that was an activation, which has no tensors.
  void check_moved(int64_t block, const FinishedBlock& finished) const;

  ResumeStore* kept_;
  PackedFolderWriter& writer_;
  const CausalLm& model_;
  std::map<std::string, std::string> grids_;
};

// Reads the folder from disk as any reader does and compares each layer with what was solved: codes
// by the hash in its health, grids by `grids`, and where `weights` is true the dequantized weights
// with those the model computes with, to the bit. Throws Error naming the layer that differs.
void verify_saved(const std::filesystem::path& folder, CausalLm& model,
                  const std::vector<LayerHealth>& layers,
                  const std::map<std::string, std::string>& grids, bool weights);

}  // namespace gptqb
