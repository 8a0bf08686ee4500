// docs/faults.md promises tests: each must exist, and each fault of its sections must have a row.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/shared.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// All matches of `pattern` in `text`, its groups joined by a dot.
std::set<std::string> matches_in(const std::string& text, const std::regex& pattern) {
  std::set<std::string> result;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    result.insert(it->size() > 2 ? it->str(1) + "." + it->str(2) : it->str(1));
  return result;
}

std::set<std::string> all_tests() {
  static const std::regex kTest(R"(TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\))");
  std::set<std::string> tests;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(GPTQB_SOURCE_DIR) / "tests"))
    if (entry.path().extension() == ".cpp") tests.merge(matches_in(text_of(entry.path()), kTest));
  return tests;
}

std::string table() { return text_of(fs::path(GPTQB_SOURCE_DIR) / "docs" / "faults.md"); }

TEST(FaultsTable, EveryNamedTestExists) {
  const auto tests = all_tests();
  EXPECT_GT(tests.size(), 300u);
  std::istringstream lines(table());
  std::string line;
  size_t rows = 0;
  static const std::regex kRow(R"(^\| ([A-Z]{2}-[0-9]{2}) \|)");
  static const std::regex kName(R"(`([A-Z]\w*)\.([A-Z]\w*)`)");
  while (std::getline(lines, line)) {
    std::smatch row;
    if (!std::regex_search(line, row, kRow)) continue;
    ++rows;
    const auto named = matches_in(line.substr(line.rfind('|', line.size() - 2)), kName);
    EXPECT_FALSE(named.empty()) << row.str(1) << " names no test";
    for (const std::string& name : named)
      EXPECT_TRUE(tests.contains(name)) << row.str(1) << " names " << name;
  }
  EXPECT_GE(rows, 29u);
}

TEST(FaultsTable, EveryFaultOfItsSectionsHasARow) {
  const fs::path path = test::shared_root() / "field" / "faults.md";
  GPTQB_REQUIRE_PATH(path);
  const auto rows = matches_in(table(), std::regex(R"(\| ((?:QN|GG)-[0-9]{2}) \|)"));
  for (const std::string& fault :
       matches_in(text_of(path), std::regex(R"(### ((?:QN|GG)-[0-9]{2}) )")))
    EXPECT_TRUE(rows.contains(fault)) << fault;
}

}  // namespace
}  // namespace gptqb
