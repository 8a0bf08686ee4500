#include "datasets/ptb_sentences.h"

#include "datasets/local_file.h"
#include "datasets/text_source.h"
#include "datasets/utf8.h"

namespace gptqb {

std::vector<std::string> ptb_splits() { return {"train", "valid", "test"}; }

Corpus load_ptb(const std::string& name, const std::string& split, const std::string& join,
                const std::filesystem::path& data_root) {
  const std::string file = "ptb." + split + ".txt";
  Corpus corpus;
  corpus.label = name + "@" + split;
  corpus.join = join;
  const auto path = locate(
      {corpus.label, "ptb/" + file,
       "It is the " + split +
           " split of the Penn Treebank in Mikolov's word-level version, public as ptb_text_only "
           "(file " +
           file + " of simple-examples.tgz, folder data)."},
      data_root);
  const Text text = read_text(path, data_root);
  corpus.files = {text.file};
  for (const std::string_view line : split_lines(text.content)) {
    const size_t end = trim_white_space(line, line.size());
    const std::string_view sentence = line.substr(0, end);
    corpus.documents.emplace_back(sentence.substr(skip_white_space(sentence, 0)));
  }
  return corpus;
}

}  // namespace gptqb
