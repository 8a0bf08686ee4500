// WikiText-2 raw as the published code reads it (protocol.md section 2).
#include "datasets/dataset.h"
#include "datasets/local_file.h"
#include "datasets/text_source.h"
#include "datasets/utf8.h"

namespace gptqb {

namespace {

class WikiText2 : public Dataset {
 public:
  std::vector<std::string> splits() const override {
    return {"train", "valid", "test", "train-head"};
  }

  Corpus load(Purpose purpose, const std::string& split,
              const std::filesystem::path& data_root) const override {
    const std::string chosen =
        !split.empty() ? split : (purpose == Purpose::kCalibration ? "train" : "test");
    const std::string file = chosen == "train-head" ? "train.head" : chosen;
    const std::string label = "wikitext2@" + chosen;
    const std::string how =
        chosen == "train-head"
            ? "It is the beginning of the train split, shortened by hand to a whole number of "
              "lines of wiki.train.raw "
              "(public as wikitext-2-raw-v1)."
            : "It is the " + chosen +
                  " split of WikiText-2 raw, public as wikitext-2-raw-v1 (file wiki." + chosen +
                  ".raw of its archive)." +
                  (chosen == "train"
                       ? " A shortened one, wiki.train.head.raw, is read as wikitext2@train-head."
                       : "");
    const auto path = locate({label, "wikitext-2-raw/wiki." + file + ".raw", how}, data_root);
    const Text text = read_text(path, data_root);
    Corpus corpus;
    corpus.label = label;
    corpus.join = "\n\n";
    corpus.files = {text.file};
    // A blank line (" \n" in the published files) is a row of its own and empty; other rows keep
    // their newline. So the stream has runs of more than two newlines, which are part of what is
    // scored.
    for (const std::string_view line : split_lines(text.content))
      corpus.documents.emplace_back(skip_white_space(line, 0) == line.size() ? std::string_view()
                                                                             : line);
    return corpus;
  }
};

}  // namespace

std::unique_ptr<Dataset> make_wikitext2() { return std::make_unique<WikiText2>(); }

}  // namespace gptqb
