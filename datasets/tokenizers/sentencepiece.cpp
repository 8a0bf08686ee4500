#include "datasets/tokenizers/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "common/error.h"
#include "datasets/tokenizers/added_tokens.h"
#include "datasets/tokenizers/tokenizer_folder.h"
#include "datasets/utf8.h"

namespace gptqb {

namespace {

class SentencePiece : public Tokenizer {
 public:
  explicit SentencePiece(TokenizerFolder folder) {
    const std::string where = folder.where("tokenizer.model");
    const auto status = processor_.LoadFromSerializedProto(folder.read("tokenizer.model"));
    if (!status.ok())
      throw Error(where, "expected a sentencepiece model, got: " + std::string(status.message()));
    TokenizerConfig config = TokenizerConfig::read(folder);
    const std::string config_where = folder.where("tokenizer_config.json");
    std::string lowered = config.tokenizer_class;
    std::transform(lowered.begin(), lowered.end(), lowered.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (!lowered.empty() && !lowered.starts_with("llama"))
      throw Error(config_where,
                  "expected tokenizer_class LlamaTokenizer beside tokenizer.model, got " +
                      config.tokenizer_class + ", whose rules are not supported");

    // The model's own control pieces are special tokens too, under the names the model gives them.
    const auto own = [&](int id, std::optional<std::string>& name) {
      if (id < 0) return;
      if (!name) name = processor_.IdToPiece(id);
      config.add({processor_.IdToPiece(id), id, false, false, false});
    };
    own(processor_.unk_id(), config.unk);
    own(processor_.bos_id(), config.bos);
    own(processor_.eos_id(), config.eos);
    size_ = processor_.GetPieceSize();
    for (AddedToken& token : config.tokens) {
      token.normalized = false;  // one pass over the text, as the slow tokenizer does
      const int id = processor_.PieceToId(token.content);
      if (!token.id && processor_.IdToPiece(id) == token.content) token.id = id;
      if (!token.id)
        throw Error(
            config_where,
            "special token '" + token.content +
                "': expected it in tokenizer.model or among the added tokens, got it in neither");
      size_ = std::max<int64_t>(size_, *token.id + 1);
      if (token.content == config.bos) bos_ = token.id;
      if (token.content == config.eos) eos_ = token.id;
    }
    added_ = AddedTokens(config.tokens);
    add_bos_ = config.add_bos.value_or(true);
    add_eos_ = config.add_eos.value_or(false);
    if (add_bos_ && !bos_)
      throw Error(where, "expected a start token because add_bos_token is true, got none");
    if (add_eos_ && !eos_)
      throw Error(where, "expected an end token because add_eos_token is true, got none");
    lines_are_apart_ = lines_are_apart();
    fingerprint_ = folder.fingerprint();
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::string repaired;
    if (find_invalid_utf8(text)) text = repaired = replace_invalid_utf8(text);
    std::vector<int32_t> ids;
    for (const Segment& segment : added_.split(text)) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
        continue;
      }
      encode_stretch(segment.text, lines_are_apart_ ? kChunk : segment.text.size(), ids);
    }
    return ids;
  }

  std::vector<int32_t> encode_with_special(std::string_view text) const override {
    std::vector<int32_t> ids;
    if (add_bos_) ids.push_back(*bos_);
    const std::vector<int32_t> middle = encode(text);
    ids.insert(ids.end(), middle.begin(), middle.end());
    if (add_eos_) ids.push_back(*eos_);
    return ids;
  }

  // Special tokens come back as they are spelled; the pieces between them by the model's own rules.
  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    std::vector<int> part;
    const auto finish = [&] {
      std::string piece;
      const auto status = processor_.Decode(part, &piece);
      if (!status.ok())
        throw Error("sentencepiece",
                    "expected to decode ids, got: " + std::string(status.message()));
      text += piece;
      part.clear();
    };
    for (const int32_t id : ids) {
      const auto& tokens = added_.tokens();
      const auto is_id = [&](const AddedToken& token) { return token.id == id; };
      const auto token = std::find_if(tokens.begin(), tokens.end(), is_id);
      if (token == tokens.end()) {
        part.push_back(id);
        continue;
      }
      finish();
      text += token->content;
    }
    finish();
    return text;
  }

  int64_t vocab_size() const override { return size_; }
  std::optional<int32_t> bos_id() const override { return bos_; }
  std::optional<int32_t> eos_id() const override { return eos_; }
  std::string kind() const override { return "sentencepiece"; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  // sentencepiece slows down on long text (its queue of merges leaves the cache), so text is handed
  // over in chunks of at least this many bytes that begin at a line break, where the model allows
  // it.
  static constexpr size_t kChunk = 4096;

  std::vector<int> encode_chunk(std::string_view text) const {
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    if (!status.ok())
      throw Error("sentencepiece",
                  "expected to encode text, got: " + std::string(status.message()));
    return ids;
  }

  // Appends the ids of `text`, cut before line breaks into chunks of at least `least` bytes. A
  // chunk after the first begins with the leading space that the model puts before any text, an id
  // of its own before a line break.
  void encode_stretch(std::string_view text, size_t least, std::vector<int32_t>& ids) const {
    bool first = true;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n', std::max<size_t>(least, 1)), text.size());
      const std::vector<int> part = encode_chunk(text.substr(0, end));
      ids.insert(ids.end(), part.begin() + (first ? 0 : 1), part.end());
      text.remove_prefix(end);
      first = false;
    }
  }

  // Whether chunks give the same ids as the whole: no piece reaches across a line break, and
  // neither the leading space nor white space at the ends of a chunk is treated in a way of its own
  // (seen on a probe).
  bool lines_are_apart() const {
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      const std::string& piece = processor_.IdToPiece(id);
      if (piece.size() > 1 && piece.find('\n') != std::string::npos) return false;
    }
    const std::vector<int> line_break = encode_chunk("\n");
    if (line_break.size() < 2 || processor_.IdToPiece(line_break[0]) != "\xE2\x96\x81")
      return false;
    const std::string probe = " a  \n\n  b \nc\n \n";
    const std::vector<int> whole = encode_chunk(probe);
    std::vector<int32_t> chunks;
    encode_stretch(probe, 1, chunks);
    return chunks == std::vector<int32_t>(whole.begin(), whole.end());
  }

  sentencepiece::SentencePieceProcessor processor_;
  AddedTokens added_;
  int64_t size_ = 0;
  bool lines_are_apart_ = false;
  bool add_bos_ = true;
  bool add_eos_ = false;
  std::optional<int32_t> bos_, eos_;
  std::string fingerprint_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& folder) {
  return std::make_unique<SentencePiece>(TokenizerFolder(folder));
}

}  // namespace gptqb
