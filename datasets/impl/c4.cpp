// The old protocol, the published default: 256 random windows of the validation shard, drawn with
// seed 0 whatever the calibration seed is (protocol.md section 2).
#include "datasets/c4_shard.h"
#include "datasets/dataset.h"

namespace gptqb {

namespace {

constexpr int64_t kWindows = 256;

class C4 : public Dataset {
 public:
  std::vector<std::string> splits() const override { return c4_splits(); }

  Corpus load(Purpose purpose, const std::string& split,
              const std::filesystem::path& data_root) const override {
    if (purpose == Purpose::kCalibration) return load_c4_calibration("c4", split, data_root);
    Corpus corpus = load_c4("c4", split.empty() ? "validation" : split, data_root);
    corpus.rule = WindowRule::kRandomDocuments;
    corpus.head_windows = kWindows;
    return corpus;
  }
};

}  // namespace

std::unique_ptr<Dataset> make_c4() { return std::make_unique<C4>(); }

}  // namespace gptqb
