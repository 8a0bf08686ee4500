#include "datasets/tokenizers/byte_bpe.h"

#include <algorithm>

#include "common/error.h"
#include "datasets/tokenizers/added_tokens.h"
#include "datasets/tokenizers/bpe_model.h"
#include "datasets/tokenizers/pre_tokenizer.h"
#include "datasets/tokenizers/tokenizer_folder.h"
#include "datasets/utf8.h"

namespace gptqb {

using nlohmann::json;

namespace {

// Hash by which a std::string key is found with a string_view.
struct ViewHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// What makes one byte-level tokenizer differ from another.
struct Rules {
  BpeModel model;
  PreTokenizer pre_tokenizer;
  std::optional<int32_t> unknown;
  std::vector<AddedToken> added;
  std::vector<int32_t> prefix, suffix;  // put round an encoded string
  std::optional<int32_t> bos, eos;
  std::string fingerprint;
};

class ByteBpe : public Tokenizer {
 public:
  explicit ByteBpe(Rules rules) : rules_(std::move(rules)), added_(rules_.added) {
    size_ = rules_.model.size();
    for (const AddedToken& token : rules_.added) size_ = std::max<int64_t>(size_, *token.id + 1);
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::string repaired;
    if (find_invalid_utf8(text)) text = repaired = replace_invalid_utf8(text);
    // Words repeat; ids of short ones are kept for the length of this call.
    std::unordered_map<std::string, std::vector<int32_t>, ViewHash, std::equal_to<>> known;
    std::vector<int32_t> ids;
    std::deque<std::string> storage;
    for (const Segment& segment : added_.split(text)) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
        continue;
      }
      for (const std::string_view word : rules_.pre_tokenizer.words(segment.text, storage)) {
        if (word.size() > kLongestKept) {
          rules_.model.encode(word, rules_.unknown, ids);
          continue;
        }
        auto found = known.find(word);
        if (found == known.end()) {
          found = known.emplace(word, std::vector<int32_t>()).first;
          rules_.model.encode(word, rules_.unknown, found->second);
        }
        ids.insert(ids.end(), found->second.begin(), found->second.end());
      }
    }
    return ids;
  }

  std::vector<int32_t> encode_with_special(std::string_view text) const override {
    std::vector<int32_t> ids = rules_.prefix;
    const std::vector<int32_t> middle = encode(text);
    ids.insert(ids.end(), middle.begin(), middle.end());
    ids.insert(ids.end(), rules_.suffix.begin(), rules_.suffix.end());
    return ids;
  }

  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      const auto is_id = [&](const AddedToken& token) { return *token.id == id; };
      const auto added = std::find_if(rules_.added.begin(), rules_.added.end(), is_id);
      text += added != rules_.added.end() ? added->content : rules_.model.bytes(id);
    }
    return text;
  }

  int64_t vocab_size() const override { return size_; }
  std::optional<int32_t> bos_id() const override { return rules_.bos; }
  std::optional<int32_t> eos_id() const override { return rules_.eos; }
  std::string kind() const override { return "byte-level bpe"; }
  std::string fingerprint() const override { return rules_.fingerprint; }

 private:
  static constexpr size_t kLongestKept = 64;

  Rules rules_;
  AddedTokens added_;
  int64_t size_ = 0;
};

// Gives an id to every added token of the configuration; one without an id anywhere is an Error.
void resolve(std::vector<AddedToken>& tokens, const BpeModel& model, const std::string& where) {
  for (AddedToken& token : tokens) {
    if (!token.id) token.id = model.find(token.content);
    if (!token.id)
      throw Error(
          where,
          "special token '" + token.content +
              "': expected it in the vocabulary or among the added tokens, got it in neither");
  }
}

std::optional<int32_t> id_of(const std::optional<std::string>& content,
                             const std::vector<AddedToken>& tokens) {
  if (content)
    for (const AddedToken& token : tokens)
      if (token.content == *content) return token.id;
  return std::nullopt;
}

// Puts BOS and EOS where tokenizer_config.json asks for them and nothing else has.
void apply_config(const TokenizerConfig& config, Rules& rules, const std::string& where) {
  rules.bos = id_of(config.bos, rules.added);
  rules.eos = id_of(config.eos, rules.added);
  if (config.add_bos.value_or(false)) {
    if (!rules.bos)
      throw Error(where, "expected a bos_token because add_bos_token is true, got none");
    if (rules.prefix.empty()) rules.prefix.push_back(*rules.bos);
  }
  if (config.add_eos.value_or(false)) {
    if (!rules.eos)
      throw Error(where, "expected an eos_token because add_eos_token is true, got none");
    if (rules.suffix.empty()) rules.suffix.push_back(*rules.eos);
  }
}

BpeModel::Vocabulary parse_vocabulary(const json& vocab, const std::string& where) {
  if (!vocab.is_object() || vocab.empty())
    throw Error(where, "expected a vocabulary of tokens and ids, got none");
  BpeModel::Vocabulary vocabulary;
  vocabulary.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) vocabulary.emplace(token, id.get<int32_t>());
  return vocabulary;
}

std::pair<std::string, std::string> parse_merge(std::string_view line, const std::string& where) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string_view::npos)
    throw Error(where, "expected a merge of two parts with one space between them, got '" +
                           std::string(line) + "'");
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

BpeModel parse_model(const json& model, const std::string& where) {
  const std::string type = model.value("type", "BPE");
  if (type != "BPE")
    throw Error(where, "expected model.type BPE, got " + type + ", which is not supported");
  const auto refuse = [&](const char* key, bool set) {
    if (set)
      throw Error(where,
                  std::string("model.") + key + ": expected it unset, got " + model[key].dump());
  };
  refuse("dropout",
         model.contains("dropout") && !model["dropout"].is_null() && model["dropout"] != 0.0);
  for (const char* key : {"byte_fallback", "fuse_unk"}) refuse(key, model.value(key, false));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    refuse(key, model.contains(key) && !model[key].is_null() && model[key] != "");
  BpeModel::Merges merges;
  for (const json& merge : model.at("merges")) {
    if (merge.is_array() && merge.size() == 2)
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    else
      merges.push_back(parse_merge(merge.get<std::string>(), where));
  }
  return BpeModel(parse_vocabulary(model.at("vocab"), where), merges,
                  model.value("ignore_merges", false), where);
}

void refuse_normalizer(const json& normalizer, const std::string& where) {
  if (normalizer.is_null()) return;
  const std::string type = normalizer.value("type", "");
  if (type != "Sequence")
    throw Error(
        where,
        "expected no normalizer, got " + (type.empty() ? normalizer.dump() : type) +
            ", which is not supported. If the file was made from a sentencepiece model, put that "
            "tokenizer.model beside it");
  for (const json& part : normalizer.at("normalizers")) refuse_normalizer(part, where);
}

void apply_post_processor(const json& processor, Rules& rules, const std::string& where) {
  if (processor.is_null()) return;
  const std::string type = processor.value("type", "");
  if (type == "ByteLevel") return;  // concerns offsets, not ids
  if (type == "Sequence") {
    for (const json& part : processor.at("processors")) apply_post_processor(part, rules, where);
    return;
  }
  if (type != "TemplateProcessing")
    throw Error(where, "expected post_processor ByteLevel or TemplateProcessing, got " + type +
                           ", which is not supported");
  std::vector<int32_t> before, after;
  bool seen_text = false;
  for (const json& part : processor.at("single")) {
    if (part.contains("Sequence")) {
      seen_text = true;
      continue;
    }
    const std::string name = part.at("SpecialToken").at("id").get<std::string>();
    for (const json& id : processor.at("special_tokens").at(name).at("ids"))
      (seen_text ? after : before).push_back(id.get<int32_t>());
  }
  rules.prefix.insert(rules.prefix.begin(), before.begin(), before.end());
  rules.suffix.insert(rules.suffix.end(), after.begin(), after.end());
}

bool has_byte_level(const json& pre_tokenizer) {
  if (!pre_tokenizer.is_object()) return false;
  if (pre_tokenizer.value("type", "") == "ByteLevel") return true;
  for (const json& part : pre_tokenizer.value("pretokenizers", json::array()))
    if (has_byte_level(part)) return true;
  return false;
}

}  // namespace

bool is_byte_level_bpe(const json& tokenizer) {
  const auto model = tokenizer.find("model");
  return model != tokenizer.end() && model->is_object() && model->value("type", "BPE") == "BPE" &&
         has_byte_level(tokenizer.value("pre_tokenizer", json()));
}

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& path) {
  TokenizerFolder folder(path);
  const std::string where = folder.where("tokenizer.json");
  const json tokenizer = folder.read_json("tokenizer.json");
  TokenizerConfig config = TokenizerConfig::read(folder);
  try {
    refuse_normalizer(tokenizer.value("normalizer", json()), where);
    Rules rules{parse_model(tokenizer.at("model"), where),
                PreTokenizer::from_json(tokenizer.value("pre_tokenizer", json()), where),
                {},
                {},
                {},
                {},
                {},
                {},
                {}};
    const json unknown = tokenizer.at("model").value("unk_token", json());
    if (unknown.is_string()) rules.unknown = rules.model.find(unknown.get<std::string>());
    // tokenizer.json comes first: its flags are the ones that the published tokenizer obeys.
    TokenizerConfig all;
    for (const json& entry : tokenizer.value("added_tokens", json::array()))
      all.add(parse_added_token(entry, where));
    for (AddedToken& token : config.tokens) all.add(std::move(token));
    rules.added = std::move(all.tokens);
    resolve(rules.added, rules.model, where);
    apply_post_processor(tokenizer.value("post_processor", json()), rules, where);
    apply_config(config, rules, folder.where("tokenizer_config.json"));
    rules.fingerprint = folder.fingerprint();
    return std::make_unique<ByteBpe>(std::move(rules));
  } catch (const json::exception& error) {
    throw Error(where,
                std::string("expected the layout of a tokenizer.json, got: ") + error.what());
  }
}

std::unique_ptr<Tokenizer> open_vocab_and_merges(const std::filesystem::path& path) {
  TokenizerFolder folder(path);
  TokenizerConfig config = TokenizerConfig::read(folder);
  const std::string where = folder.where("vocab.json");
  const std::string config_where = folder.where("tokenizer_config.json");
  const std::string merges_where = folder.where("merges.txt");
  if (!config.tokenizer_class.empty() && !config.tokenizer_class.starts_with("GPT2Tokenizer"))
    throw Error(config_where,
                "expected tokenizer_class GPT2Tokenizer beside vocab.json and merges.txt, got " +
                    config.tokenizer_class +
                    ", whose rules are not supported. Save its tokenizer.json");
  if (config.add_prefix_space)
    throw Error(config_where, "add_prefix_space true is not supported with vocab.json");

  BpeModel::Merges merges;
  const std::string text = folder.read("merges.txt");
  std::string_view rest = text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t newline = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(std::min(newline + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    merges.push_back(parse_merge(line, merges_where + ":" + std::to_string(number)));
  }
  try {
    Rules rules{BpeModel(parse_vocabulary(folder.read_json("vocab.json"), where), merges, false,
                         merges_where),
                PreTokenizer::gpt2(),
                {},
                {},
                {},
                {},
                {},
                {},
                {}};
    // GPT-2's own default for all three, where the files name none.
    constexpr const char* kEndOfText = "<|endoftext|>";
    if (rules.model.find(kEndOfText)) {
      for (std::optional<std::string>* slot : {&config.bos, &config.eos, &config.unk})
        if (!*slot) *slot = kEndOfText;
      config.add({kEndOfText, std::nullopt, false, false, false});
    }
    // One pass over the text for all of them: the slow tokenizer knows no `normalized`.
    for (AddedToken& token : config.tokens) token.normalized = false;
    rules.added = config.tokens;
    resolve(rules.added, rules.model, where);
    rules.unknown = id_of(config.unk, rules.added);
    apply_config(config, rules, config_where);
    rules.fingerprint = folder.fingerprint();
    return std::make_unique<ByteBpe>(std::move(rules));
  } catch (const json::exception& error) {
    throw Error(where, std::string("expected an object of tokens and ids, got: ") + error.what());
  }
}

}  // namespace gptqb
