// Finished blocks of a cell that is not finished yet, as files.
#pragma once

#include <filesystem>
#include <string>

#include "common/progress.h"
#include "methods/quantize_model.h"

namespace gptqb {

// <output>/work/<cell id>/block_N.safetensors holds the tensors "<linear>.packed" (codes in the
// bits they have), ".scales", ".zeros" and ".group_of_input"; its metadata holds one JSON text with
// the health of each layer, the hash of the block's output, and the build that made it. One file a
// block, written atomically, so that a block is finished or not.
class FileResumeStore : public ResumeStore {
 public:
  // `inputs` names everything the blocks were made from beside the cell's settings (model,
  // tokenizer, windows, device): a block made from other inputs is not used. `progress` gets a note
  // for each file that is not used; it may be null.
  FileResumeStore(const std::filesystem::path& output, const std::string& cell_id,
                  Progress* progress, std::string inputs = "");

  // Empty if there is no file, if it is damaged, or if it was made by another build or from other
  // inputs.
  std::optional<FinishedBlock> load(int64_t block) override;
  void save(int64_t block, const FinishedBlock& finished) override;

  // Removes all of the cell's files: it is finished, or starts anew.
  void discard();

  std::filesystem::path block_path(int64_t block) const;

  // Of the cell's files as they are now; 0: none.
  int64_t bytes() const;

 private:
  std::filesystem::path folder_;
  Progress* progress_;
  std::string inputs_;
};

}  // namespace gptqb
