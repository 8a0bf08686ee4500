// The new protocol, that of the paper's final tables: the first 1100 documents of the validation
// shard joined by a space, tokenized once, and of that the first 256 windows (protocol.md section
// 2).
#include "datasets/c4_shard.h"
#include "datasets/dataset.h"

namespace gptqb {

namespace {

constexpr int64_t kDocuments = 1100;
constexpr int64_t kWindows = 256;

class C4New : public Dataset {
 public:
  std::vector<std::string> splits() const override { return c4_splits(); }

  Corpus load(Purpose purpose, const std::string& split,
              const std::filesystem::path& data_root) const override {
    if (purpose == Purpose::kCalibration) return load_c4_calibration("c4-new", split, data_root);
    Corpus corpus = load_c4("c4-new", split.empty() ? "validation" : split, data_root, kDocuments);
    corpus.join = " ";
    corpus.rule = WindowRule::kHeadStream;
    corpus.head_windows = kWindows;
    return corpus;
  }
};

}  // namespace

std::unique_ptr<Dataset> make_c4_new() { return std::make_unique<C4New>(); }

}  // namespace gptqb
