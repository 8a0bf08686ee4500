// What `plan` says a cell takes, held against what it took.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/atomic_file.h"
#include "models/causal_lm.h"
#include "models/gptq_tensors.h"
#include "runner/cell_memory.h"
#include "runner/cli.h"
#include "runner/disk_plan.h"
#include "runner/model_checks.h"
#include "runner/record.h"
#include "runner/save_checks.h"
#include "runner/time_estimate.h"
#include "tests/runner/planned.h"
#include "tests/runner/record_samples.h"
#include "tests/runner/run_program.h"
#include "tests/runner/spawned_program.h"
#include "tests/runner/tiny_sweep.h"
#include "tests/support/slow_packer.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using test::run_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Estimates : public testing::Test {
 protected:
  // Blocks of some weight, so that the program itself is not all that takes memory.
  static std::string text(const std::string& method, const std::string& quant,
                          const std::string& more = "") {
    return "name: estimated\n"
           "model: {synthetic: {architecture: llama, hidden_size: 512, intermediate_size: 1408, "
           "heads: 8, layers: 6, vocab_size: 2000}, dtype: float32}\n"
           "calibration: {dataset: random, samples: 8, seqlen: 128, heldout: 2}\n"
           "quant: {" +
           quant + "}\nmethod: {" + method +
           "}\n"
           "evaluate: [{perplexity: {datasets: [random], seqlen: 128, max_windows: 80}}]\n" +
           more;
  }
  std::string write(const std::string& text) const {
    write_file_atomically(folder_ / "experiment.yaml", text);
    return (folder_ / "experiment.yaml").string();
  }
  Record run(const std::string& text) const {
    const std::string log = (folder_ / "log").string();
    EXPECT_EQ(test::run_spawned({"run", write(text), "--output", (folder_ / "out").string()}, log),
              kExitOk)
        << read_file(log);
    return load_records(folder_ / "out").records.at(0);
  }
  static void expect_close(double planned, double measured, const std::string& what) {
    EXPECT_GE(planned, 0.7 * measured) << what;
    EXPECT_LE(planned, 1.3 * measured) << what;
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

// Disk: finished blocks, the packed checkpoint and the record. Memory: the peak of the process.
TEST_F(Estimates, OfDiskAndMemoryLieWithin30PercentOfWhatARunTakes) {
  struct Case {
    const char* method;
    const char* quant;
    bool save;
  };
  const Case cases[] = {{"name: gptq", "bits: 4, group_size: 64, symmetric: true", true},
                        {"name: gptq, act_order: true", "bits: 3, group_size: 32", false},
                        {"name: rtn", "bits: ternary, group_size: 64", false}};
  for (const Case& each : cases) {
    const std::string what = std::string(each.method) + " " + each.quant;
    const std::string save =
        each.save ? "save: {path: \"" + (folder_ / "saved").string() + "\"}\n" : "";
    const Record record = run(text(each.method, each.quant, save));
    const auto bytes = [&](const char* name) {
      return static_cast<double>(record.peak_bytes.at(name));
    };
    expect_close(bytes("disk_planned"), bytes("disk_peak"), what + ": disk");
    expect_close(bytes("host_planned"), bytes("host_peak"), what + ": memory");
    const Plan plan = make_plan(parse_experiments(text(each.method, each.quant), "e.yaml").at(0),
                                {.methods = {"gptq", "rtn"}, .evaluators = {"perplexity"}});
    const ModelChecks checks = check_models(plan, "");
    const Cell& cell = plan.cells.at(0).cell;
    ASSERT_EQ(cell.id(), record.cell_id);
    const DiskPlan disk =
        plan_disk(cell, checks.sizes.at(cell.id()), checks.linears.at(cell.id()), {});
    expect_close(static_cast<double>(disk.record),
                 static_cast<double>(fs::file_size(record_path(folder_ / "out", cell.id()))),
                 what + ": record");
    fs::remove_all(folder_ / "out");
  }
}

// By hand: 4 bits, groups of 64 of 128 inputs: codes 64 x 128 / 2, scales and zero points
// 64 x 2 x (4 + 1).
TEST_F(Estimates, OfDiskByHand) {
  const std::string one =
      "name: one\n"
      "model: {synthetic: {architecture: llama, hidden_size: 128, intermediate_size: 128, heads: "
      "2, layers: 3, vocab_size: 100}, dtype: float16}\n"
      "calibration: {dataset: random, samples: 1, seqlen: 16, heldout: 0}\n"
      "quant: {bits: 4, group_size: 64}\n"
      "method: {name: gptq}\n"
      "overrides: [{match: \"*.mlp.*\", skip: true}]\n";
  const Plan plan =
      make_plan(parse_experiments(one, "one.yaml").at(0), {.methods = {"gptq"}, .evaluators = {}});
  const ModelChecks checks = check_models(plan, "");
  const Cell& cell = plan.cells.at(0).cell;
  const DiskPlan disk = plan_disk(cell, checks.sizes.at(cell.id()), checks.linears.at(cell.id()),
                                  {.resume = true, .save = true, .hessians = true});
  constexpr int64_t kLinears = 3 * 4;  // q, k, v and o of three blocks
  EXPECT_EQ(disk.resume, kLinears * (128 * 128 / 2 + 128 * 2 * 5));
  EXPECT_EQ(disk.hessians, kLinears * 128 * 128 * 4);
  // Packed: codes, zero points of 4 bits, scales of 2 bytes, an index; dense: three linears of the
  // MLP and two norms a block, the last norm, the embedding and the head.
  EXPECT_EQ(disk.checkpoint, kLinears * (128 * 128 / 2 + 2 * 128 / 2 + 2 * 128 * 2 + 4 * 128) +
                                 (3 * (3 * 128 * 128 + 2 * 128) + 128 + 2 * 100 * 128) * 2);
  const DiskPlan nothing = plan_disk(cell, checks.sizes.at(cell.id()), checks.linears.at(cell.id()),
                                     {.resume = false, .save = false, .hessians = false});
  EXPECT_EQ(nothing.peak(), nothing.record);
}

// What pack_gptq() makes, where codes and zero points do not fill their last words.
TEST(PackedBytes, AreThoseOfTheTensors) {
  for (const int64_t bits : {2, 3, 4, 8})
    for (const int64_t group_size : {-1, 32, 40})
      for (const int64_t out : {33, 64}) {
        const test::RandomCodes codes{
            .out = out, .in = 100, .bits = bits, .group_size = group_size, .least_zero = 1};
        const GptqTensors tensors = pack_gptq(codes.make(), PackedFormat::kGptq, "layer");
        int64_t bytes = 0;
        for (const at::Tensor& each :
             {tensors.qweight, tensors.qzeros, tensors.scales, tensors.g_idx})
          bytes += static_cast<int64_t>(each.nbytes());
        QuantConfig quant;
        quant.bits = bits;
        quant.group_size = group_size;
        EXPECT_EQ(packed_bytes(quant, out, 100), bytes) << bits << " " << group_size << " " << out;
      }
}

// The room that is asked for before any work is never more than what the plan expects to write.
TEST(PackedBytes, TheLeastOfACheckpointIsNoMoreThanThePlanned) {
  for (const char* more :
       {"", "overrides: [{match: \"*.mlp.*\", quant.bits: 2, quant.group_size: 16}]\n",
        "overrides: [{match: \"*.mlp.*\", quant.bits: 8}]\n",
        "overrides: [{match: \"*.mlp.*\", skip: true}]\n"}) {
    const std::string text =
        "name: one\n"
        "model: {synthetic: {architecture: llama, hidden_size: 72, intermediate_size: 88, heads: "
        "2, "
        "layers: 3, vocab_size: 101}, dtype: float16}\n"
        "calibration: {dataset: random, samples: 1, seqlen: 16, heldout: 0}\n"
        "quant: {bits: 3, group_size: 32}\nmethod: {name: gptq}\n" +
        std::string(more);
    const Plan plan = make_plan(parse_experiments(text, "one.yaml").at(0),
                                {.methods = {"gptq"}, .evaluators = {}});
    const ModelChecks checks = check_models(plan, "");
    const Cell& cell = plan.cells.at(0).cell;
    const ModelSizes& sizes = checks.sizes.at(cell.id());
    const int64_t planned =
        plan_disk(cell, sizes, checks.linears.at(cell.id()), {.save = true}).checkpoint;
    if (*more == 0)
      EXPECT_EQ(least_checkpoint_bytes(cell, sizes), planned);
    else
      EXPECT_LE(least_checkpoint_bytes(cell, sizes), planned) << more;
    EXPECT_GT(least_checkpoint_bytes(cell, sizes), planned / 4) << more;
  }
}

// The plan never makes a time up: it says that it is not known, times a block, or takes records.
TEST_F(Estimates, OfTimeAreMeasuredOrNotGiven) {
  const std::string path = write(text("name: gptq", "bits: 4, group_size: 64"));
  const std::string unknown = run_program({"plan", path}).out;
  EXPECT_THAT(unknown, AllOf(HasSubstr("in all: time not known, disk "),
                             HasSubstr("nobody has measured it here")));
  const std::string measured = run_program({"plan", path, "--measure"}).out;
  EXPECT_THAT(measured, AllOf(HasSubstr("measured: read "), HasSubstr("by 2 blocks"),
                              HasSubstr("by 3 passes of windows"), Not(HasSubstr("not known"))));
  const std::string out = (folder_ / "out").string();
  ASSERT_EQ(run_program({"run", path, "--output", out}).code, kExitOk);
  EXPECT_THAT(run_program({"plan", path, "--records", out}).out, HasSubstr("1 earlier record"));
  // However often and by whatever path a folder is named, its records are counted once.
  EXPECT_THAT(run_program({"plan", path, "--records", out, "--records", folder_.string()}).out,
              HasSubstr("1 earlier record"));
  EXPECT_EQ(run_program({"plan", path, "--records", (folder_ / "none").string()}).code,
            kExitBadInput);
  const Record record = load_records(out).records.at(0);
  EXPECT_TRUE(find_metric(record, "seconds.quantize_planned").has_value());
}

// What an external program is handed for it goes where it hinders nobody, and goes away.
TEST_F(Estimates, MeasuringLeavesNothingBehind) {
  const auto here = fs::current_path() / "work";
  ASSERT_FALSE(fs::exists(here)) << here;
  const std::string script = temporary_.write("fails.sh", "exit 3\n").string();
  const test::Outcome outcome =
      run_program({"plan", write(test::sweep_of_script(script, "[external]")), "--measure"});
  EXPECT_THAT(outcome.out, HasSubstr("exit status 3"));
  EXPECT_FALSE(fs::exists(here));
}

TEST_F(Estimates, OfTimeComeFromRecordsOfCellsLikeIt) {
  const auto cell_of = [](const std::string& method, const std::string& quant) {
    return make_plan(parse_experiments(text(method, quant), "e.yaml").at(0),
                     {.methods = {"gptq", "rtn"}, .evaluators = {"perplexity"}})
        .cells.at(0)
        .cell;
  };
  const Cell cell = cell_of("name: gptq", "bits: 4, group_size: 64");
  const Environment here = capture_environment("cpu", {});
  const auto record_of = [&](const Cell& of, double seconds) {
    Record record;
    record.settings = of.settings();
    record.environment = here;
    record.metrics.push_back(test::metric("seconds.cell", seconds));
    return record;
  };
  // Bits and damping cost no time; the group size may.
  std::vector<Record> records = {
      record_of(cell_of("name: gptq, damping: 0.1", "bits: 3, group_size: 64"), 10),
      record_of(cell, 14), record_of(cell_of("name: gptq", "bits: 4, group_size: 32"), 100),
      record_of(cell_of("name: rtn", "bits: 4, group_size: 64"), 1)};
  EXPECT_DOUBLE_EQ(estimate_from_records(cell, records, here)->seconds, 12);
  EXPECT_EQ(estimate_from_records(cell, records, here)->how, "mean of 2 earlier records");
  records[0].resumed_blocks = 2;
  records[1].environment.threads += 1;
  EXPECT_FALSE(estimate_from_records(cell, records, here).has_value());
}

}  // namespace
}  // namespace gptqb
