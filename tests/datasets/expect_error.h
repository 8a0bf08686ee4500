// Asserts that something throws gptqb::Error and what it says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/error.h"

namespace gptqb::test {

template <class Function>
void expect_error(Function function, const std::vector<std::string>& parts) {
  try {
    function();
  } catch (const Error& error) {
    for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
    return;
  }
  ADD_FAILURE() << "expected an Error that says '" << (parts.empty() ? "" : parts.front())
                << "', got none";
}

}  // namespace gptqb::test
