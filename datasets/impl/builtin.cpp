// Text of our own that comes with the program, so that a first run needs no data folder.
#include <cstdlib>

#include "common/error.h"
#include "datasets/dataset.h"
#include "datasets/text_source.h"

namespace gptqb {

namespace {

namespace fs = std::filesystem;

// $GPTQ_BENCH_SHARE where the program was installed; the source tree otherwise.
fs::path share_folder() {
  const char* share = std::getenv("GPTQ_BENCH_SHARE");
  return share && *share ? fs::path(share) : fs::path(GPTQB_SOURCE_DIR);
}

class Builtin : public Dataset {
 public:
  std::vector<std::string> splits() const override { return {"calibration", "evaluation"}; }

  Corpus load(Purpose purpose, const std::string& split, const fs::path&) const override {
    const std::string chosen =
        !split.empty() ? split : (purpose == Purpose::kCalibration ? "calibration" : "evaluation");
    const fs::path share = share_folder();
    const fs::path wanted = share / "datasets" / "builtin" / (chosen + ".txt");
    const auto path = find_spelling(wanted);
    if (!path)
      throw Error("builtin@" + chosen,
                  "expected the file " + wanted.string() +
                      ", got none. It belongs to the program: set GPTQ_BENCH_SHARE to the "
                      "folder that holds datasets/builtin");
    const Text text = read_text(*path, share);
    Corpus corpus;
    corpus.label = "builtin@" + chosen;
    corpus.join = "\n\n";
    corpus.files = {text.file};
    // Documents are separated by a blank line; newlines at either end of one are layout, not text.
    std::string document;
    const auto finish = [&] {
      while (!document.empty() && document.back() == '\n') document.pop_back();
      if (!document.empty()) corpus.documents.push_back(document);
      document.clear();
    };
    for (const std::string_view line : split_lines(text.content)) {
      if (line == "\n")
        finish();
      else
        document += line;
    }
    finish();
    return corpus;
  }
};

}  // namespace

std::unique_ptr<Dataset> make_builtin() { return std::make_unique<Builtin>(); }

}  // namespace gptqb
