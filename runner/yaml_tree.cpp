#include "runner/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

namespace gptqb {

std::string Position::text() const {
  if (line == 0) return file;
  return file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

const YamlNode* YamlNode::find(const std::string& key) const {
  for (const YamlEntry& entry : entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

std::string YamlNode::describe() const {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return (quoted ? "the quoted text '" : "'") + text + "'";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
  }
  return "";
}

namespace {

std::string error_text(const std::vector<Error>& errors) {
  if (errors.size() == 1) {
    const std::string what = errors[0].what();
    return what.substr(errors[0].where().size() + 3);  // "[where] " is put back by Error
  }
  std::string text = std::to_string(errors.size()) + " faults:";
  for (const Error& error : errors) text += "\n  " + std::string(error.what());
  return text;
}

}  // namespace

ErrorList::ErrorList(const std::string& file, std::vector<Error> errors)
    : Error(errors.size() == 1 ? errors[0].where() : file, error_text(errors)),
      errors_(std::move(errors)) {}

void Faults::add(const Position& position, const std::string& key, const std::string& message) {
  // An option of the command line names its key already.
  const bool named = key.empty() || position.file.compare(0, 6, "--set ") == 0;
  const Error error(position.text() + (named ? "" : " " + key), message);
  for (const Fault& known : faults_)
    if (std::string(known.error.what()) == error.what()) return;
  faults_.push_back({error, position, key});
}

bool Faults::mentions(const std::string& key) const {
  for (const Fault& known : faults_)
    if (known.key == key || known.key.compare(0, key.size() + 1, key + ".") == 0) return true;
  return false;
}

void Faults::raise(const std::string& file) const {
  if (faults_.empty()) return;
  std::vector<Fault> sorted = faults_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Fault& a, const Fault& b) {
    return std::pair(a.position.line, a.position.column) <
           std::pair(b.position.line, b.position.column);
  });
  std::vector<Error> errors;
  for (const Fault& fault : sorted) errors.push_back(fault.error);
  throw ErrorList(file, std::move(errors));
}

namespace {

// Builds one document's tree out of the parser's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, Faults& faults) : file_(file), faults_(faults) {}

  // The document, or nothing if it held no node.
  std::optional<YamlNode> take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(node(mark, YamlNode::Kind::kNull));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    faults_.add(place(mark), "",
                "expected a value, got an alias (*). Aliases are not read: write the value out");
    add(node(mark, YamlNode::Kind::kNull));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    YamlNode result = node(mark, YamlNode::Kind::kScalar);
    result.text = value;
    result.quoted = tag == "!";
    add(std::move(result));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    YamlNode node;
    std::optional<YamlEntry> pending;  // a map's key that waits for its value
    bool broken_key = false;           // the next value belongs to a key that was refused
  };

  Position place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  YamlNode node(const YAML::Mark& mark, YamlNode::Kind kind) const {
    YamlNode result;
    result.kind = kind;
    result.position = place(mark);
    return result;
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor)
      faults_.add(place(mark), "",
                  "expected a plain value, got an anchor (&). Anchors are not read: write the "
                  "value out where it is needed");
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "!" && tag != "?")
      faults_.add(
          place(mark), "",
          "expected a plain value, got the tag '" + tag + "'. Tags are not read: leave it out");
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    levels_.push_back({node(mark, kind), std::nullopt, false});
  }

  void close() {
    YamlNode done = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(done));
  }

  void add(YamlNode value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return;
    }
    Level& level = levels_.back();
    if (level.node.is_list()) {
      level.node.items.push_back(std::move(value));
    } else if (level.broken_key) {
      level.broken_key = false;
    } else if (level.pending) {
      // The parser gives an absent value no place of its own.
      if (value.kind == YamlNode::Kind::kNull) value.position = level.pending->position;
      level.pending->value = std::move(value);
      level.node.entries.push_back(std::move(*level.pending));
      level.pending.reset();
    } else {
      add_key(level, value);
    }
  }

  void add_key(Level& level, const YamlNode& key) {
    if (!key.is_scalar()) {
      faults_.add(key.position, "", "expected a key, got " + key.describe());
      level.broken_key = true;
      return;
    }
    if (key.text == "<<" && !key.quoted) {
      faults_.add(
          key.position, "",
          "expected a key, got a merge key (<<). Merge keys are not read: write the entries out");
      level.broken_key = true;
      return;
    }
    for (const YamlEntry& entry : level.node.entries) {
      if (entry.key != key.text) continue;
      faults_.add(key.position, key.text,
                  "expected each key once, got '" + key.text +
                      "' again: it is already set in line " + std::to_string(entry.position.line) +
                      ". Remove one of the two");
      level.broken_key = true;
      return;
    }
    level.pending = YamlEntry{key.text, key.position, {}};
  }

  std::string file_;
  Faults& faults_;
  std::vector<Level> levels_;
  std::optional<YamlNode> root_;
};

// The parser takes tabs for spaces in some places and not in others; as indentation they mislead
// everywhere.
void refuse_tabs(const std::string& text, const std::string& file, Faults& faults) {
  int line = 1;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const size_t first = std::min(text.find_first_not_of(' ', start), end);
    if (first < end && text[first] == '\t')
      faults.add({file, line, static_cast<int>(first - start) + 1}, "",
                 "expected spaces as indentation, got a tab");
    start = end + 1;
    ++line;
  }
}

}  // namespace

std::vector<YamlNode> parse_yaml(const std::string& text, const std::string& file, Faults& faults) {
  std::vector<YamlNode> documents;
  refuse_tabs(text, file, faults);
  if (!faults.empty()) return documents;
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (true) {
      TreeBuilder builder(file, faults);
      if (!parser.HandleNextDocument(builder)) break;
      std::optional<YamlNode> document = builder.take();
      if (document && document->kind != YamlNode::Kind::kNull)
        documents.push_back(std::move(*document));
    }
  } catch (const YAML::Exception& fault) {
    const Position position{file, fault.mark.line + 1, fault.mark.column + 1};
    faults.add(position, "", "expected YAML, got a fault of syntax: " + fault.msg);
  }
  return documents;
}

std::string expand_variables(const std::string& text) {
  std::string result;
  size_t from = 0;
  while (true) {
    const size_t open = text.find("${", from);
    if (open == std::string::npos) return result + text.substr(from);
    const size_t close = text.find('}', open);
    if (close == std::string::npos)
      throw std::invalid_argument("expected ${NAME} or ${NAME:-default}, got '" +
                                  text.substr(open) + "' without a closing brace");
    const std::string inside = text.substr(open + 2, close - open - 2);
    const size_t dash = inside.find(":-");
    const std::string name = inside.substr(0, dash);
    const std::string allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    if (name.empty() || name.find_first_not_of(allowed) != std::string::npos)
      throw std::invalid_argument("expected ${NAME} or ${NAME:-default}, got '" +
                                  text.substr(open, close - open + 1) + "'");
    const char* value = std::getenv(name.c_str());
    result += text.substr(from, open - from);
    if (value != nullptr && *value != '\0') {
      result += value;
    } else if (dash != std::string::npos) {
      result += inside.substr(dash + 2);
    } else {
      throw std::invalid_argument("expected the environment variable " + name + " to be set, got " +
                                  (value == nullptr ? "none" : "an empty one") +
                                  ". Set it (export " + name + "=...), or write ${" + name +
                                  ":-default}");
    }
    from = close + 1;
  }
}

}  // namespace gptqb
