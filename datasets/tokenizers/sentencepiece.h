// sentencepiece models (LLaMA 1 and 2, Mistral, TinyLlama).
#pragma once

#include <filesystem>
#include <memory>

#include "datasets/tokenizer.h"

namespace gptqb {

// From tokenizer.model by the rules of LLaMA's slow tokenizer, with which the published numbers
// were made: special tokens are cut out of the text wherever they are spelled in it ("<unk>" in
// Penn Treebank becomes one id), and each stretch between them is encoded on its own, with the
// model's leading space before it. (`legacy: false` in tokenizer_config.json would leave that space
// out after a special token; the text around special tokens is the only text for which it makes a
// difference, and it is not followed.) BOS at the start unless `add_bos_token` is false, EOS at the
// end if `add_eos_token` is true.
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& folder);

}  // namespace gptqb
