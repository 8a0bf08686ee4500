#include "runner/resume_store.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/atomic_file.h"
#include "runner/build_info.h"
#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Notes : public Progress {
 public:
  void begin(const std::string&, int64_t) override {}
  void advance(int64_t) override {}
  void note(const std::string& line) override { lines.push_back(line); }
  std::vector<std::string> lines;
};

FinishedBlock finished_block() {
  FinishedBlock block;
  QuantizedLinear linear;
  linear.bits = 4;
  linear.group_size = 2;
  linear.codes = at::arange(12, at::kByte).reshape({3, 4});
  linear.scales = at::full({3, 2}, 0.5, at::kFloat);
  linear.zeros = at::full({3, 2}, 8, at::kByte);
  block.linears["self_attn.q_proj"] = LinearReplacement(linear);
  linear.group_of_input = at::tensor({1, 0, 1, 0}, at::kInt);
  block.linears["mlp.down_proj"] = LinearReplacement(linear);
  block.linears["mlp.up_proj"] =
      LinearReplacement(TransformedLinear{linear, at::full({4}, 0.25, at::kFloat)});
  block.linears["mlp.gate_proj"] = LinearReplacement(DenseWeights{at::ones({3, 4}, at::kHalf)});
  block.divided["input_layernorm"] = at::tensor({0.5f, 2.0f, 1.0f, 4.0f});
  block.health = {test::layer("model.layers.0.self_attn.q_proj", "rtn: singular")};
  block.output_hash = 0xFFFFFFFFFFFFFFFFull;
  return block;
}

TEST(ResumeStoreTest, TernaryLevelsComeBack) {
  FinishedBlock block;
  QuantizedLinear linear;
  linear.bits = QuantConfig::kTernary;
  linear.group_size = 8;
  linear.codes = at::arange(24, at::kByte).remainder(3).reshape({2, 12}).contiguous();
  linear.levels = at::tensor({-1.f, 0.f, 2.f}).repeat({2, 2, 1}).contiguous();
  block.linears["mlp.down_proj"] = LinearReplacement(linear);
  const test::TemporaryFolder folder;
  Notes notes;
  FileResumeStore(folder.path(), "cell", &notes).save(0, block);
  const auto loaded = FileResumeStore(folder.path(), "cell", &notes).load(0);
  ASSERT_TRUE(loaded);
  const LinearReplacement back = loaded->linears.at("mlp.down_proj").replacement();
  const QuantizedLinear& got = *back.codes();
  EXPECT_TRUE(at::equal(got.codes, linear.codes));
  EXPECT_TRUE(at::equal(got.levels, linear.levels));
  EXPECT_FALSE(got.scales.defined() || got.zeros.defined());
  EXPECT_EQ(got.bits, QuantConfig::kTernary);
  EXPECT_THAT(notes.lines, testing::IsEmpty());
}

TEST(ResumeStoreTest, ABlockComesBackAsItWas) {
  const test::TemporaryFolder folder;
  Notes notes;
  FileResumeStore store(folder.path(), "cell", &notes);
  EXPECT_FALSE(store.load(0));
  store.save(0, finished_block());
  const auto loaded = FileResumeStore(folder.path(), "cell", &notes).load(0);
  ASSERT_TRUE(loaded);
  const FinishedBlock wanted = finished_block();
  EXPECT_EQ(loaded->output_hash, wanted.output_hash);
  ASSERT_EQ(loaded->linears.size(), 4u);
  for (const auto& [name, kept] : wanted.linears) {
    const LinearReplacement linear = kept.replacement();
    const LinearReplacement got = loaded->linears.at(name).replacement();
    EXPECT_EQ(got.form.index(), linear.form.index()) << name;
    const auto tensors = got.tensors();
    ASSERT_EQ(tensors.size(), linear.tensors().size()) << name;
    for (const auto& [part, tensor] : linear.tensors())
      EXPECT_TRUE(at::equal(tensors.at(part), tensor)) << name << "." << part;
    if (linear.codes() == nullptr) continue;
    EXPECT_EQ(got.codes()->bits, 4);
    EXPECT_EQ(got.codes()->group_size, 2);
  }
  ASSERT_EQ(loaded->divided.size(), 1u);
  EXPECT_TRUE(
      at::equal(loaded->divided.at("input_layernorm"), wanted.divided.at("input_layernorm")));
  ASSERT_EQ(loaded->health.size(), 1u);
  EXPECT_EQ(loaded->health[0].status, "rtn: singular");
  EXPECT_EQ(loaded->health[0].loss, 1.5);
  EXPECT_TRUE(notes.lines.empty());
}

TEST(ResumeStoreTest, ADamagedFileIsNotFinishedAndSaidSo) {
  const test::TemporaryFolder folder;
  Notes notes;
  FileResumeStore store(folder.path(), "cell", &notes);
  store.save(3, finished_block());
  const std::string content = read_file(store.block_path(3));
  write_file_atomically(store.block_path(3), content.substr(0, content.size() - 5));
  EXPECT_FALSE(store.load(3));
  EXPECT_THAT(notes.lines, ElementsAre(testing::AllOf(HasSubstr("block 3 is quantized again: ["),
                                                      HasSubstr("block_3.safetensors"))));
}

TEST(ResumeStoreTest, ABlockOfAnotherBuildIsNotUsed) {
  const test::TemporaryFolder folder;
  Notes notes;
  FileResumeStore store(folder.path(), "cell", &notes);
  store.save(0, finished_block());
  std::string content = read_file(store.block_path(0));
  const size_t id = content.find(build_id());
  ASSERT_NE(id, std::string::npos);
  content[id] = 'X';
  write_file_atomically(store.block_path(0), content);
  EXPECT_FALSE(store.load(0));
  EXPECT_THAT(notes.lines, ElementsAre(HasSubstr("is of another build of gptq-bench")));
}

TEST(ResumeStoreTest, DiscardTakesOnlyTheCellsOwnFiles) {
  const test::TemporaryFolder folder;
  FileResumeStore mine(folder.path(), "mine", nullptr);
  FileResumeStore other(folder.path(), "other", nullptr);
  mine.save(0, finished_block());
  other.save(0, finished_block());
  mine.discard();
  EXPECT_FALSE(mine.load(0));
  EXPECT_TRUE(other.load(0));
  other.discard();
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "work"));
  other.discard();
}

}  // namespace
}  // namespace gptqb
