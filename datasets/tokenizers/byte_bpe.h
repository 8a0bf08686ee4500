// Byte-level BPE (GPT-2, OPT, BLOOM, SmolLM2, Llama 3 and others).
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "datasets/tokenizer.h"

namespace gptqb {

// Whether a tokenizer.json is byte-level BPE: a BPE model behind a ByteLevel pre-tokenizer.
bool is_byte_level_bpe(const nlohmann::json& tokenizer);

// From tokenizer.json: model BPE, pre-tokenizers ByteLevel, Split, Digits and sequences of them,
// added tokens, post-processors ByteLevel and TemplateProcessing. What would change ids and is not
// supported (a normalizer, dropout, byte_fallback, ...) is an Error by name. `add_bos_token: true`
// of tokenizer_config.json counts even where the post-processor adds no BOS: some converted files
// of OPT lost it.
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& folder);

// From vocab.json and merges.txt by the rules of GPT-2's slow tokenizer, which OPT shares: GPT-2's
// pattern, special tokens cut out of the text wherever they stand in it, BOS at the start if
// `add_bos_token` says so (OPT: </s>, id 2).
std::unique_ptr<Tokenizer> open_vocab_and_merges(const std::filesystem::path& folder);

}  // namespace gptqb
