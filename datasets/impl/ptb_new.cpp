// The new protocol, that of the paper's final tables: test sentences joined by a space (protocol.md
// section 2).
#include "datasets/dataset.h"
#include "datasets/ptb_sentences.h"

namespace gptqb {

namespace {

class PtbNew : public Dataset {
 public:
  std::vector<std::string> splits() const override { return ptb_splits(); }

  Corpus load(Purpose purpose, const std::string& split,
              const std::filesystem::path& data_root) const override {
    const std::string chosen =
        !split.empty() ? split : (purpose == Purpose::kCalibration ? "train" : "test");
    return load_ptb("ptb-new", chosen, " ", data_root);
  }
};

}  // namespace

std::unique_ptr<Dataset> make_ptb_new() { return std::make_unique<PtbNew>(); }

}  // namespace gptqb
