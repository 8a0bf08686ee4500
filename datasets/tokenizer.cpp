#include "datasets/tokenizer.h"

#include "common/error.h"
#include "datasets/tokenizers/byte_bpe.h"
#include "datasets/tokenizers/sentencepiece.h"
#include "datasets/tokenizers/tokenizer_folder.h"

namespace gptqb {

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder) {
  TokenizerFolder files(folder);
  if (files.has("tokenizer.json")) {
    // Of a file that is not byte-level BPE, opening it says what is not supported.
    if (!files.has("tokenizer.model") || is_byte_level_bpe(files.read_json("tokenizer.json")))
      return open_tokenizer_json(folder);
  }
  if (files.has("tokenizer.model")) return open_sentencepiece(folder);
  if (files.has("vocab.json") && files.has("merges.txt")) return open_vocab_and_merges(folder);
  throw Error(folder.string(),
              "expected tokenizer.json, tokenizer.model, or vocab.json and merges.txt, got none of "
              "them in the folder. "
              "Copy the tokenizer's files beside the weights");
}

bool has_tokenizer(const std::filesystem::path& folder) {
  const TokenizerFolder files(folder);
  return files.has("tokenizer.json") || files.has("tokenizer.model") ||
         (files.has("vocab.json") && files.has("merges.txt"));
}

}  // namespace gptqb
