// Traps of YAML (field/faults EH-01 to EH-06): none may change a value in silence.
#include "runner/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/message.h"

namespace gptqb {
namespace {

using test::message_of;
using ::testing::HasSubstr;

YamlNode parse_one(const std::string& text) {
  Faults faults;
  const auto documents = parse_yaml(text, "f.yaml", faults);
  faults.raise("f.yaml");
  EXPECT_EQ(documents.size(), 1u);
  return documents.at(0);
}

std::string fault_of(const std::string& text) {
  return message_of([&] { parse_one(text); });
}

TEST(YamlTree, EveryNodeKnowsItsPlace) {
  const YamlNode root = parse_one("a: 1\nb:\n  c: [x, \"y\"]\n");
  ASSERT_TRUE(root.is_map());
  EXPECT_EQ(root.entries[0].position.text(), "f.yaml:1:1");
  const YamlNode& list = *root.find("b")->find("c");
  ASSERT_TRUE(list.is_list());
  EXPECT_EQ(list.position.text(), "f.yaml:3:6");
  EXPECT_EQ(list.items[1].position.text(), "f.yaml:3:10");
  EXPECT_FALSE(list.items[0].quoted);
  EXPECT_TRUE(list.items[1].quoted);
}

TEST(YamlTree, DuplicateKeyNamesBothLines) {
  EXPECT_EQ(fault_of("bits: 3\nname: x\nbits: 4\n"),
            "[f.yaml:3:1 bits] expected each key once, got 'bits' again: it is already set in line "
            "1. Remove one of "
            "the two");
}

TEST(YamlTree, DuplicateKeyIsFoundAtAnyDepth) {
  EXPECT_THAT(fault_of("quant:\n  bits: 3\n  bits: 4\n"), HasSubstr("already set in line 2"));
  EXPECT_THAT(fault_of("a: [{b: {c: 1, c: 2}}]\n"), HasSubstr("[f.yaml:1:16 c]"));
}

TEST(YamlTree, AnchorsAliasesAndMergeKeysAreRefused) {
  const std::string text = fault_of("a: &base {x: 1}\nb: *base\nc:\n  <<: *base\n");
  EXPECT_THAT(text, HasSubstr("[f.yaml:1:4] expected a plain value, got an anchor (&)"));
  EXPECT_THAT(text, HasSubstr("[f.yaml:2:4] expected a value, got an alias (*)"));
  EXPECT_THAT(text, HasSubstr("[f.yaml:4:3] expected a key, got a merge key (<<)"));
}

TEST(YamlTree, TagsAreRefused) {
  EXPECT_THAT(fault_of("a: !!str 5\n"), HasSubstr("got the tag 'tag:yaml.org,2002:str'"));
}

TEST(YamlTree, TabsInIndentationAreRefused) {
  EXPECT_EQ(fault_of("a:\n\tb: 1\n"), "[f.yaml:2:1] expected spaces as indentation, got a tab");
  EXPECT_EQ(fault_of("a:\n  \tb: 1\n"), "[f.yaml:2:3] expected spaces as indentation, got a tab");
  EXPECT_EQ(parse_one("a: 1 \t# a comment\n").entries.size(), 1u);
}

TEST(YamlTree, SyntaxFaultHasItsPlace) {
  EXPECT_THAT(fault_of("a: [1, 2\nb: 3\n"), HasSubstr("[f.yaml:"));
  EXPECT_THAT(fault_of("a: [1, 2\nb: 3\n"), HasSubstr("expected YAML, got a fault of syntax"));
}

TEST(YamlTree, SeveralDocumentsAndEmptyOnes) {
  Faults faults;
  const auto documents = parse_yaml("a: 1\n---\n---\nb: 2\n", "f", faults);
  EXPECT_TRUE(faults.empty());
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[1].entries[0].position.line, 4);
}

TEST(YamlTree, BooleanWordsStayText) {
  const YamlNode root = parse_one("name: no\ntag: on\ny: 1\n");
  EXPECT_EQ(root.find("name")->text, "no");
  EXPECT_EQ(root.find("tag")->text, "on");
  EXPECT_NE(root.find("y"), nullptr);
}

TEST(YamlTree, WindowsLineEndsAndByteOrderMark) {
  const YamlNode root = parse_one(
      "\xEF\xBB\xBF"
      "a: x\r\nb: y\r\n");
  EXPECT_EQ(root.find("a")->text, "x");
  EXPECT_EQ(root.find("b")->text, "y");
}

TEST(YamlTree, AbsentValueHasThePlaceOfItsKey) {
  const YamlNode root = parse_one("a:\n  b:\n  c: 1\n");
  EXPECT_EQ(root.find("a")->find("b")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.find("a")->find("b")->position.text(), "f.yaml:2:3");
}

TEST(YamlTree, JsonIsReadToo) {
  const YamlNode root =
      parse_one(R"({"a.b":"x \"q\" é\u00e9\n","c":[1,2],"d":{"e":true},"f":-0.5})");
  EXPECT_EQ(root.find("a.b")->text, "x \"q\" \xC3\xA9\xC3\xA9\n");
  EXPECT_EQ(root.find("c")->items.size(), 2u);
  EXPECT_EQ(root.find("d")->find("e")->text, "true");
  EXPECT_EQ(root.find("f")->text, "-0.5");
}

TEST(YamlTree, FaultsAreTogetherInTheOrderOfTheFileAndToldOnce) {
  Faults faults;
  faults.add({"f", 9, 1}, "b", "late");
  faults.add({"f", 2, 5}, "a", "early");
  faults.add({"f", 2, 5}, "a", "early");
  EXPECT_TRUE(faults.mentions("a"));
  EXPECT_FALSE(faults.mentions("c"));
  EXPECT_EQ(message_of([&] { faults.raise("f"); }),
            "[f] 2 faults:\n  [f:2:5 a] early\n  [f:9:1 b] late");
}

TEST(ExpandVariables, ValueDefaultAndFault) {
  setenv("GPTQB_TEST_SET", "/data", 1);
  setenv("GPTQB_TEST_EMPTY", "", 1);
  unsetenv("GPTQB_TEST_UNSET");
  EXPECT_EQ(expand_variables("${GPTQB_TEST_SET}/x${GPTQB_TEST_UNSET:-y}z"), "/data/xyz");
  EXPECT_EQ(expand_variables("${GPTQB_TEST_EMPTY:-d}${GPTQB_TEST_UNSET:-}"), "d");
  EXPECT_EQ(expand_variables("a $5 price"), "a $5 price");
  EXPECT_EQ(
      message_of([] { expand_variables("${GPTQB_TEST_UNSET}/x"); }),
      "expected the environment variable GPTQB_TEST_UNSET to be set, got none. Set it (export "
      "GPTQB_TEST_UNSET=...), or write ${GPTQB_TEST_UNSET:-default}");
  EXPECT_THAT(message_of([] { expand_variables("${GPTQB_TEST_EMPTY}"); }),
              HasSubstr("got an empty one"));
  EXPECT_EQ(message_of([] { expand_variables("a${B"); }),
            "expected ${NAME} or ${NAME:-default}, got '${B' without a closing brace");
  EXPECT_EQ(message_of([] { expand_variables("${a b}"); }),
            "expected ${NAME} or ${NAME:-default}, got '${a b}'");
}

}  // namespace
}  // namespace gptqb
