// Ids drawn at random: the dataset of synthetic models, which have no tokenizer. Who loads it knows
// the vocabulary (random_ids.h); there is no file.
#include "datasets/dataset.h"

namespace gptqb {

namespace {

class Random : public Dataset {
 public:
  std::vector<std::string> splits() const override { return {"uniform"}; }
  Corpus load(Purpose, const std::string&, const std::filesystem::path&) const override {
    Corpus corpus;
    corpus.label = "random";
    return corpus;
  }
};

}  // namespace

std::unique_ptr<Dataset> make_random() { return std::make_unique<Random>(); }

}  // namespace gptqb
