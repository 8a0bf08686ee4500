// Where cells run: the section `executor`, what of it reaches sbatch, and what workers are told.
#include "runner/executor_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/job.h"
#include "runner/slurm_client.h"
#include "tests/runner/planned.h"

namespace gptqb::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kMethod = "method: {name: gptq}\n";

TEST(ExecutorSettings, AreReadAndChangeNoId) {
  const Plan plain = plan(kMethod);
  EXPECT_EQ(plain.executor.name, "local");
  EXPECT_FALSE(plain.executor.workers.has_value());
  const Plan slurm = plan(std::string(kMethod) +
                          "executor: {name: slurm, workers: 3, partition: gpu, time: \"01:30:00\", "
                          "gres: \"gpu:1\", extra: [\"--mem=32G\", \"-Aproject\"]}\n");
  EXPECT_EQ(slurm.executor.name, "slurm");
  EXPECT_EQ(slurm.executor.workers, 3);
  EXPECT_EQ(slurm.executor.partition, "gpu");
  EXPECT_EQ(slurm.executor.time, "01:30:00");
  EXPECT_EQ(slurm.executor.gres, "gpu:1");
  EXPECT_THAT(slurm.executor.extra, ElementsAre("--mem=32G", "-Aproject"));
  EXPECT_EQ(slurm.cells.at(0).cell.id(), plain.cells.at(0).cell.id());
  EXPECT_EQ(plan(kMethod, {"executor.workers=2"}).executor.workers, 2);
}

TEST(ExecutorSettings, WordsThatSbatchWouldTakeForSomethingElseAreRefused) {
  const auto fault = [](const std::string& word) {
    return fault_of(std::string(kMethod) + "executor: {name: slurm, extra: [\"" + word + "\"]}\n");
  };
  EXPECT_THAT(fault("job.sh"), HasSubstr("expected options that begin with -"));
  for (const char* own : {"--array=0-3", "--output=x", "-o x", "-a1", "--wrap=ls", "--parsable"})
    EXPECT_THAT(fault(own), HasSubstr("does not give itself")) << own;
  EXPECT_EQ(fault("--account=a"), "nothing was thrown");
  EXPECT_THAT(fault_of(std::string(kMethod) + "executor: {workers: 0}\n"), HasSubstr("workers"));
}

TEST(SlurmWords, PathsKeepEveryCharacter) {
  EXPECT_EQ(slurm::shell_word("/a b/it's $HOME"), "'/a b/it'\\''s $HOME'");
  EXPECT_EQ(slurm::output_pattern("/100 %/x"), "/100 %%/x");
  EXPECT_THAT(message_of([] { slurm::output_pattern("/a\\b"); }), HasSubstr("backslash"));
}

// Everything a worker needs to do the same as this process would.
TEST(JobText, ReadsBackAsItWas) {
  Job job;
  job.plan = plan(
      "sweep: {method.name: [none, gptq, obq]}\nsave: {path: /out, shard_size: 2}\n"
      "evaluate: [{perplexity: {datasets: [wikitext2]}}]\nresume: false\n"
      "limits: {host_memory: 2}\ndump: [hessians]\n"
      "expect: [{where: {method.name: gptq}, metric: perplexity.wikitext2, value: 5.5, "
      "tolerance: {absolute: 0.1}, source: s}]\n");
  job.device = "cuda";
  job.output = "/some where/it's";
  job.data_root = "/data";
  job.fresh = true;
  job.argv = {"gptq-bench", "run", "a b"};
  const std::string text = job_to_json(job);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Job read = job_from_json(text, "test");
  EXPECT_EQ(job_to_json(read), text);
  ASSERT_EQ(read.plan.cells.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.plan.cells[i].cell.canonical(), job.plan.cells[i].cell.canonical());
    EXPECT_EQ(read.plan.cells[i].skip_reason, job.plan.cells[i].skip_reason);
    EXPECT_EQ(read.plan.cells[i].position, static_cast<int64_t>(i));
  }
  EXPECT_EQ(read.plan.cells[2].skip_reason, "not supported yet: method.name obq");
  ASSERT_EQ(read.plan.cells[1].expectations.size(), 1u);
  EXPECT_EQ(read.plan.cells[1].expectations[0].value, 5.5);
  EXPECT_EQ(read.plan.limits.host, int64_t{2} << 30);
  EXPECT_FALSE(read.plan.limits.device.has_value());
  EXPECT_FALSE(read.plan.resume);
  EXPECT_TRUE(read.plan.dump_hessians);
  ASSERT_TRUE(read.plan.save.has_value());
  EXPECT_EQ(read.plan.save->path, "/out");
  EXPECT_EQ(read.plan.save->shard_bytes, 2'000'000'000);
  EXPECT_EQ(read.output, job.output);
  EXPECT_EQ(read.argv, job.argv);
  EXPECT_TRUE(read.fresh);
  EXPECT_THAT(message_of([] { job_from_json("{}", "w"); }), HasSubstr("[w] expected a job"));
}

}  // namespace
}  // namespace gptqb::test
