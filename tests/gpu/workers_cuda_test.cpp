// Workers on GPUs: each sees one, and which one it was is no part of a record.
#include <gtest/gtest.h>

#include "kernels/device_info.h"
#include "runner/cli.h"
#include "tests/runner/same_numbers.h"
#include "tests/runner/spawned_program.h"
#include "tests/runner/tiny_sweep.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

TEST(WorkersCuda, OneAGpuGivesTheRecordsOfOneProcess) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.write("sweep.yaml", test::tiny_sweep());
  const std::string log = (folder.path() / "log").string();
  const fs::path alone = folder.path() / "alone", workers = folder.path() / "workers";
  const std::string gpus = std::to_string(kernels::cuda_info().devices.size());
  ASSERT_EQ(test::run_spawned(
                {"run", file.string(), "--output", alone.string(), "--device", "cuda"}, log),
            kExitOk)
      << read_file(log);
  ASSERT_EQ(test::run_spawned({"run", file.string(), "--output", workers.string(), "--device",
                               "cuda", "--workers", gpus},
                              log),
            kExitOk)
      << read_file(log);
  EXPECT_EQ(test::numbers_of(workers), test::numbers_of(alone));
  for (const Record& record : load_records(workers).records)
    EXPECT_EQ(record.environment.device, "cuda:0");
  // A GPU by its number is for one worker.
  EXPECT_EQ(test::run_spawned({"run", file.string(), "--output", workers.string(), "--device",
                               "cuda:0", "--workers", "2"},
                              log),
            kExitBadInput);
}

}  // namespace
}  // namespace gptqb
