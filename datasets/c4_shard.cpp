#include "datasets/c4_shard.h"

#include "datasets/local_file.h"
#include "datasets/text_source.h"

namespace gptqb {

std::vector<std::string> c4_splits() { return {"train", "validation"}; }

Corpus load_c4(const std::string& name, const std::string& split,
               const std::filesystem::path& data_root, int64_t max_documents) {
  const std::string file =
      split == "train" ? "c4-train.00000-of-01024.json" : "c4-validation.00000-of-00008.json";
  Corpus corpus;
  corpus.label = name + "@" + split;
  const auto path =
      locate({corpus.label, "c4/en/" + file,
              "It is the first " + split + " shard of C4, public as allenai/c4 (file en/" + file +
                  ".gz, one JSON object with the key text a line)."},
             data_root);
  corpus.files.push_back(read_json_lines(path, data_root, "text", corpus.documents, max_documents));
  return corpus;
}

Corpus load_c4_calibration(const std::string& name, const std::string& split,
                           const std::filesystem::path& data_root) {
  Corpus corpus = load_c4(name, split.empty() ? "train" : split, data_root);
  corpus.rule = WindowRule::kRandomDocuments;
  return corpus;
}

}  // namespace gptqb
