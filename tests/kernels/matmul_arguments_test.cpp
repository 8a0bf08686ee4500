#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/matmul.h"
#include "tests/support/message.h"

namespace gptqb::kernels {
namespace {

// KN-19: views shifted by 2 and 4 bytes.
TEST(MatmulArguments, MisalignedPointersAreNamed) {
  alignas(16) char memory[64] = {};
  MatmulArguments arguments;
  arguments.x = memory;
  arguments.y = memory + 16;
  arguments.weight.zeros = reinterpret_cast<uint8_t*>(memory + 32);
  check_alignment(arguments);  // null pointers are none
  arguments.x = memory + 2;
  EXPECT_EQ(test::message_of([&] { check_alignment(arguments); }),
            "[x] expected memory aligned to 16 bytes, got a pointer 2 bytes past. Copy it, or pass "
            "a whole tensor");
  arguments.x = memory;
  arguments.weight.zeros += 4;
  EXPECT_THAT(test::message_of([&] { check_alignment(arguments); }),
              testing::HasSubstr("[zeros] expected memory aligned"));
}

}  // namespace
}  // namespace gptqb::kernels
