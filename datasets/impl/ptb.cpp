// The old protocol, the published default: validation sentences joined by a blank line (protocol.md
// section 2).
#include "datasets/dataset.h"
#include "datasets/ptb_sentences.h"

namespace gptqb {

namespace {

class Ptb : public Dataset {
 public:
  std::vector<std::string> splits() const override { return ptb_splits(); }

  Corpus load(Purpose purpose, const std::string& split,
              const std::filesystem::path& data_root) const override {
    const std::string chosen =
        !split.empty() ? split : (purpose == Purpose::kCalibration ? "train" : "valid");
    return load_ptb("ptb", chosen, "\n\n", data_root);
  }
};

}  // namespace

std::unique_ptr<Dataset> make_ptb() { return std::make_unique<Ptb>(); }

}  // namespace gptqb
