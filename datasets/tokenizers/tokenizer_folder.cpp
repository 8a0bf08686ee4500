#include "datasets/tokenizers/tokenizer_folder.h"

#include <algorithm>

#include "common/atomic_file.h"
#include "common/error.h"

namespace gptqb {

using nlohmann::json;

std::string TokenizerFolder::read(const std::string& name) {
  std::string content = read_file(folder_ / name);
  hash_.add(name + "\n" + std::to_string(content.size()) + "\n");
  hash_.add(content);
  return content;
}

json TokenizerFolder::read_json(const std::string& name) {
  if (!has(name)) return json::object();
  json value;
  try {
    value = json::parse(read(name));
  } catch (const json::exception& error) {
    throw Error(where(name), std::string("expected a JSON object, got: ") + error.what());
  }
  if (!value.is_object())
    throw Error(where(name),
                std::string("expected a JSON object, got a JSON ") + value.type_name());
  return value;
}

std::string TokenizerFolder::fingerprint() const { return Sha256(hash_).hex(); }

AddedToken parse_added_token(const json& entry, const std::string& where) {
  if (entry.is_string()) return {entry.get<std::string>(), std::nullopt, false, false, false};
  if (!entry.is_object() || !entry.contains("content") || !entry["content"].is_string())
    throw Error(where,
                "expected an added token as text or as an object with text under 'content', got " +
                    entry.dump().substr(0, 80));
  AddedToken token;
  token.content = entry["content"].get<std::string>();
  if (entry.value("single_word", false))
    throw Error(where, "added token '" + token.content + "': single_word true is not supported");
  if (entry.contains("id")) token.id = entry["id"].get<int32_t>();
  token.lstrip = entry.value("lstrip", false);
  token.rstrip = entry.value("rstrip", false);
  token.normalized = entry.value("normalized", false);
  return token;
}

void TokenizerConfig::add(AddedToken token) {
  const auto same = [&](const AddedToken& known) { return known.content == token.content; };
  if (!token.content.empty() && std::none_of(tokens.begin(), tokens.end(), same))
    tokens.push_back(std::move(token));
}

TokenizerConfig TokenizerConfig::read(TokenizerFolder& folder) {
  TokenizerConfig result;
  const json config = folder.read_json("tokenizer_config.json");
  const json map = folder.read_json("special_tokens_map.json");
  const json added = folder.read_json("added_tokens.json");
  const std::string where = folder.where("tokenizer_config.json");

  try {
    result.tokenizer_class = config.value("tokenizer_class", "");
    result.add_prefix_space = config.value("add_prefix_space", false);
    if (config.contains("add_bos_token")) result.add_bos = config["add_bos_token"].get<bool>();
    if (config.contains("add_eos_token")) result.add_eos = config["add_eos_token"].get<bool>();
    const json decoder = config.value("added_tokens_decoder", json::object());
    for (const auto& [id, entry] : decoder.items()) {
      AddedToken token = parse_added_token(entry, where);
      token.id = std::stoi(id);
      result.add(std::move(token));
    }
    for (const auto& [content, id] : added.items())
      result.add({content, id.get<int32_t>(), false, false, false});
  } catch (const json::exception& error) {
    throw Error(
        where, std::string("expected the keys of a tokenizer configuration, got: ") + error.what());
  } catch (const std::logic_error& error) {
    throw Error(where, "expected numbers as keys of added_tokens_decoder, got one that is none");
  }

  for (const auto& [source, name] :
       {std::pair(&config, "tokenizer_config.json"), {&map, "special_tokens_map.json"}}) {
    const auto named = [&](const char* key) -> std::optional<std::string> {
      const auto found = source->find(key);
      if (found == source->end() || found->is_null()) return std::nullopt;
      AddedToken token = parse_added_token(*found, folder.where(name));
      std::string content = token.content;
      result.add(std::move(token));
      return content.empty() ? std::nullopt : std::optional(content);
    };
    for (const auto& [key, slot] : {std::pair("bos_token", &result.bos),
                                    {"eos_token", &result.eos},
                                    {"unk_token", &result.unk}}) {
      const std::optional<std::string> content = named(key);
      if (!*slot) *slot = content;
    }
    for (const char* key : {"pad_token", "cls_token", "sep_token", "mask_token"}) named(key);
    const auto more = source->find("additional_special_tokens");
    if (more != source->end() && more->is_array())
      for (const json& entry : *more) result.add(parse_added_token(entry, folder.where(name)));
  }
  return result;
}

}  // namespace gptqb
