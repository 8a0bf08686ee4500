// What an exception says, for tests of messages.
#pragma once

#include <exception>
#include <string>

namespace gptqb::test {

// The text of the exception that `action` throws; "nothing was thrown" if none.
template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const std::exception& fault) {
    return fault.what();
  }
  return "nothing was thrown";
}

}  // namespace gptqb::test
