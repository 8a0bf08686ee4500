// One ATen thread for all tests of this folder: on a busy machine the pauses of a second one cost
// more than it brings. Tests of threading set the number themselves.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace gptqb::test {
namespace {

class OneThread : public ::testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};

const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace
}  // namespace gptqb::test
