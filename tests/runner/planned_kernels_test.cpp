// Kernels in a plan: a cell of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/kernel_settings.h"
#include "tests/runner/planned.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Plan, KernelsAreACellOfTheirOwnAndSaveIsNone) {
  const Plan made =
      plan("method: {name: rtn}\nkernels: {like: llama-7b, m: [1, 16]}\nsave: {path: /out}\n");
  ASSERT_EQ(made.cells.size(), 2u);
  EXPECT_EQ(made.cells[0].skip_reason, "");
  EXPECT_EQ(made.cells[1].skip_reason, "");
  EXPECT_EQ(made.save->path, "/out");
  EXPECT_TRUE(made.cells[1].cell.measures_kernels());
  EXPECT_FALSE(made.cells[0].cell.measures_kernels());
  EXPECT_EQ(made.cells[1].cell.setting("kernels.m"), "1, 16");
  const auto alone = parse_experiments("name: k\nkernels: {like: llama-7b}\n", "k");
  EXPECT_EQ(make_plan(alone.at(0), build()).cells.size(), 1u);
  const auto with_slurm =
      parse_experiments("name: k\nkernels: {like: llama-7b}\nexecutor: {name: slurm}\n", "k");
  EXPECT_EQ(make_plan(with_slurm.at(0), build()).cells[0].skip_reason, "");
}

// Two spellings of one thing are one cell, and defaults are part of it.
TEST(Plan, KernelsHaveEveryDefaultInTheirCell) {
  const auto cell_of = [](const std::string& keys) {
    return make_plan(parse_experiments("name: k\nkernels: {" + keys + "}\n", "k").at(0), build())
        .cells.at(0)
        .cell;
  };
  const Cell plain = cell_of("like: llama-7b");
  EXPECT_EQ(plain.setting("kernels.m"), "1, 16");
  EXPECT_EQ(plain.setting("kernels.bits"), "4");
  EXPECT_EQ(plain.setting("kernels.group_size"), "128");
  EXPECT_EQ(plain.setting("kernels.symmetric"), "true");
  EXPECT_EQ(plain.setting("kernels.act_order"), "false");
  EXPECT_EQ(plain.setting("kernels.dtype"), "float16");
  EXPECT_EQ(plain.setting("kernels.cold"), "true");
  EXPECT_EQ(plain.id(), cell_of("like: llama-7b, bits: 4, group_size: [128], cold: true").id());
  EXPECT_NE(plain.id(), cell_of("like: llama-7b, bits: 3").id());
  EXPECT_EQ(Cell::from_json(plain.canonical()).id(), plain.id());
  EXPECT_EQ(plain.summary(), "kernels llama-7b");
}

TEST(Plan, KernelsThatCannotBeMeantAreErrorsInOneMessage) {
  const auto fault = [](const std::string& keys) {
    return message_of([&] {
      make_plan(parse_experiments("name: k\nkernels: {" + keys + "}\n", "k").at(0), build());
    });
  };
  EXPECT_THAT(fault("m: 1"),
              HasSubstr("expected one of kernels.like and kernels.shapes, got none"));
  EXPECT_THAT(fault("like: llama-7b, shapes: [64x64]"), HasSubstr("got both"));
  EXPECT_THAT(
      fault("shapes: [64x64, 64, 0x5]"),
      AllOf(HasSubstr("expected KxN such as 4096x11008, got '64'"), HasSubstr("got '0x5'")));
  EXPECT_THAT(fault("like: llama-7"), HasSubstr("Did you mean 'llama-7b'?"));
  EXPECT_THAT(fault("like: llama-7b, kernel: [cpu_plian]"), HasSubstr("Did you mean 'cpu_plain'?"));
  EXPECT_THAT(fault("like: llama-7b, bits: [5]"), HasSubstr("expected one of 2, 3, 4, 8"));
  EXPECT_THAT(fault("like: llama-7b, group_size: 0"), HasSubstr("kernels.group_size"));
  EXPECT_THAT(fault("like: llama-7b, repetitions: 2"), HasSubstr("an integer >= 3"));
  EXPECT_THAT(fault("like: llama-7b, grup_size: 32"), HasSubstr("kernels.group_size"));
}

}  // namespace
}  // namespace gptqb::test
