#include "runner/cli.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "common/error.h"
#include "common/progress.h"
#include "runner/build_info.h"
#include "runner/cli_commands.h"

namespace gptqb {
namespace {

void add_file_options(CLI::App& command, FileOptions& options) {
  command.add_option("files", options.files, "experiment files (YAML)")->required();
  command
      .add_option("--set", options.set, "key=value in YAML syntax, wins over the file; repeatable")
      ->allow_extra_args(false);
  command.add_option("--tier", options.tier, "only documents of this tier: smoke, base or full");
  command.add_option("--shard", options.shard,
                     "I/N: of N runs over the same plan, the I-th (from 0)");
}

void add_executor_options(CLI::App& command, RunCommandOptions& options) {
  command.add_option("--executor", options.executor,
                     "local or slurm, where cells run (default: executor.name of the file, else "
                     "local)");
  command
      .add_option("--workers", options.workers,
                  "cells that run at once, each in a process of its own (default: "
                  "executor.workers of the file, else one cell at a time in this process)")
      ->check(CLI::PositiveNumber);
  command.add_flag("--cancel-on-interrupt", options.cancel_on_interrupt,
                   "slurm: Ctrl-C cancels the jobs (default: they go on, a second Ctrl-C within 3 "
                   "seconds cancels them)");
  command
      .add_option("--poll", options.poll_seconds, "slurm: seconds between two looks at the jobs")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
}

void add_run_options(CLI::App& command, RunCommandOptions& options) {
  command.add_option("--device", options.device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--output", options.output,
                     "folder for records and tables; with several experiments each gets a folder "
                     "of its name in it "
                     "(default: results/<experiment name>)");
  command.add_flag("--fresh", options.fresh, "run finished cells again and forget kept blocks");
  command.add_flag("--verify", options.verify,
                   "hash the model's files whole, for the record and for what is kept");
}

void add_rerun_options(CLI::App& command, RunCommandOptions& options) {
  options.device.clear();
  command.add_option("--device", options.device, "cpu, cuda or cuda:N (default: the record's)");
  command.add_option("--output", options.output,
                     "folder for the new record and tables (default: results/rerun-<cell id>)");
  command.add_flag("--verify", options.verify,
                   "hold the model's files against the record's full hashes (of run --verify)");
}

// Lists take several values after one comma-separated option.
void add_bench_options(CLI::App& command, BenchCommandOptions& options) {
  const auto like = command.add_option(
      "--like", options.like,
      "shapes of the linears of this published model (default: llama-7b); or --shapes");
  command
      .add_option("--shapes", options.shapes,
                  "KxN,...: in x out features of weights, instead of --like")
      ->delimiter(',')
      ->excludes(like);
  struct List {
    const char* key;
    const char* option;
    const char* help;
  };
  static constexpr List kLists[] = {
      {"m", "--m", "rows of the activations (default: 1,16)"},
      {"bits", "--bits", "bits of a code: 2, 3, 4, 8 (default: 4)"},
      {"group_size", "--group-size", "columns that share a scale, -1: one a row (default: 128)"},
      {"symmetric", "--symmetric", "true, false or true,false: a fixed zero point (default: true)"},
      {"act_order", "--act-order",
       "true, false or true,false: columns of a group lie anywhere (default: false)"},
      {"dtype", "--dtype",
       "float16, bfloat16 or float16,bfloat16, of the activations (default: float16)"},
      {"kernel", "--kernel",
       "these kernels, or all that can run; an error if one cannot (default: the one that "
       "selection takes)"},
      {"seed", "--seed", "of codes and activations (default: 0)"}};
  options.lists.clear();
  for (const List& list : kLists) options.lists.emplace_back(list.key, std::vector<std::string>{});
  for (size_t i = 0; i < std::size(kLists); ++i)
    command.add_option(kLists[i].option, options.lists[i].second, kLists[i].help)
        ->delimiter(',')
        ->allow_extra_args(false);
  command.add_option("--filter", options.filter,
                     "regular expression found in the names "
                     "KERNEL/KxN/m:M/bits:B/group:G/sym/natural/float16; -REGEX: not found");
  command.add_flag("--warm", options.warm,
                   "use one weight again and again, from the cache if it fits (default: weights "
                   "rotate through more memory than caches hold)");
  command.add_option("--repetitions", options.repetitions,
                     "of many calls each, 3 or more (default: 20)");
  command.add_option("--device", options.run.device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--output", options.run.output,
                     "folder for records and tables (default: results/bench)");
}

void add_quantize_options(CLI::App& command, QuantizeCommandOptions& options) {
  const auto value = [&](const char* name, auto& target, const char* help) {
    command.add_option(name, target, help)->capture_default_str();
  };
  const auto flag = [&](const std::string& name, bool& target, const std::string& help) {
    command.add_flag("--" + name + ",!--no-" + name, target,
                     help + (target ? " (default: yes)" : " (default: no)"));
  };
  command.add_option("model", options.model, "Hugging Face folder of the dense model")->required();
  command.add_option("--out", options.out, "folder of the packed checkpoint")->required();
  value("--bits", options.bits, "of a code: 2, 3, 4, 8");
  value("--group-size", options.group_size, "columns that share a scale, -1: one a row");
  flag("symmetric", options.symmetric, "a fixed zero point in the middle");
  flag("act-order", options.act_order, "columns by falling diagonal of H");
  flag("static-groups", options.static_groups,
       "groups in natural order, so that act-order costs readers nothing");
  flag("true-sequential", options.true_sequential,
       "statistics see the quantized layers before them in their block");
  value("--damping", options.damping, "share of the mean of diag(H)");
  value("--dtype", options.dtype, "auto, float16, bfloat16 or float32, of the model");
  value("--dataset", options.dataset, "calibration text");
  value("--samples", options.samples, "calibration windows");
  value("--seqlen", options.seqlen, "tokens a window");
  value("--seed", options.seed, "of the calibration windows");
  command.add_option("--format", options.format,
                     "gptq or gptq_v2 (default: gptq if symmetric, else gptq_v2)");
  value("--shard-size", options.shard_size, "GB a file");
  command
      .add_option("--set", options.run.files.set,
                  "key=value of an experiment file, for all other settings; repeatable")
      ->allow_extra_args(false);
  command.add_option("--device", options.run.device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--output", options.run.output,
                     "folder for records and tables (default: results/quantize)");
  command.add_flag("--fresh", options.run.fresh, "quantize again what is finished");
}

void add_generate_options(CLI::App& command, GenerateOptions& options) {
  const auto value = [&](const char* name, auto& target, const char* help) {
    return command.add_option(name, target, help)->capture_default_str();
  };
  command.add_option("model", options.folder, "Hugging Face folder, dense or packed")->required();
  command.add_option("prompt", options.prompt, "text to go on from; -: standard input");
  command.add_option("--prompt-file", options.prompt_file,
                     "file that holds the prompt, every byte of it; -: standard input");
  value("--max-tokens", options.max_tokens, "tokens to write at most");
  value("--temperature", options.sampling.temperature,
        "logits are divided by it before a token is drawn; 0: the likeliest token");
  value("--top-k", options.sampling.top_k, "draw from the k likeliest tokens; 0: from all");
  value("--top-p", options.sampling.top_p,
        "draw from the fewest likeliest tokens that make up this share");
  value("--seed", options.sampling.seed, "of the draws");
  command.add_option("--stop", options.stops, "end before this text; repeatable")
      ->allow_extra_args(false);
  command.add_flag("--no-special-tokens", options.no_special_tokens,
                   "put no start token before the prompt, where the tokenizer does");
  value("--device", options.device, "cpu, cuda or cuda:N");
  value("--dtype", options.dtype, "auto, float16, bfloat16 or float32");
  value(
      "--backend", options.backend,
      "packed: packed weights are multiplied from their codes; dense: they are dequantized; auto: "
      "packed where the folder is packed and the dtype has 16 bits")
      ->check(CLI::IsMember({"auto", "packed", "dense"}));
  value("--checkpoint-format", options.checkpoint_format,
        "how a packed folder is read, against its own label")
      ->check(CLI::IsMember({"auto", "gptq", "gptq_v2", "compressed-tensors"}));
}

void add_compare_options(CLI::App& command, CompareCommandOptions& options) {
  CompareOptions& compare = options.compare;
  command
      .add_option("folders", options.folders,
                  "OLD NEW: output folders, or folders of such folders; with --new all are OLD. "
                  "Cells that occur several times are repeated runs: five a side give times a "
                  "verdict")
      ->required();
  command.add_option("--new", options.newer, "NEW...: where there are several of either");
  command.add_option("--junit", options.junit, "also write the verdicts as JUnit XML to this file");
  command.add_flag("--all", options.all, "list what is the same, too");
  const auto number = [&](const char* name, double& target, const char* help, double most) {
    command.add_option(name, target, help)->capture_default_str()->check(CLI::Range(0.0, most));
  };
  number("--relative", compare.relative_tolerance,
         "share of its old value by which a metric may worsen (times apart)", 1e9);
  number("--absolute", compare.absolute_tolerance,
         "or this much, in its own unit: the larger of both is allowed", 1e300);
  number("--time", compare.time_threshold,
         "share by which a time may grow; a verdict needs its interval beyond or within it", 1e9);
  number("--confidence", compare.confidence, "of the interval of a time's factor", 0.999999);
  number("--smallest-seconds", compare.smallest_seconds, "seconds that differ by less are the same",
         1e300);
}

}  // namespace

int command_line(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  CLI::App app(
      "Benchmarks post-training quantization of language models: GPTQ, RTN and the dense model, on "
      "one "
      "protocol.",
      "gptq-bench");
  app.set_version_flag("--version", version_line());
  app.require_subcommand(1);

  int code = kExitOk;
  RunCommandOptions run_options;
  run_options.argv = args;
  std::string record, folder, format, kind;

  CLI::App* run =
      app.add_subcommand("run", "run experiments: quantize, evaluate, write records and tables");
  add_file_options(*run, run_options.files);
  add_run_options(*run, run_options);
  add_executor_options(*run, run_options);
  run->callback([&] { code = run_command(run_options, out, err); });

  CLI::App* bench = app.add_subcommand(
      "bench", "time the kernels that multiply by packed weights, checked first");
  BenchCommandOptions bench_options;
  bench_options.run.argv = args;
  add_bench_options(*bench, bench_options);
  bench->callback([&] { code = bench_command(bench_options, out, err); });

  CLI::App* quantize = app.add_subcommand(
      "quantize", "write a packed checkpoint of a model: GPTQ, read back and checked");
  QuantizeCommandOptions quantize_options;
  quantize_options.run.argv = args;
  add_quantize_options(*quantize, quantize_options);
  quantize->callback([&] { code = quantize_command(quantize_options, out, err); });

  std::string checkpoint, checkpoint_format = "auto", dense, target;
  const auto add_checkpoint = [&](CLI::App& command) {
    command.add_option("dir", checkpoint, "model folder")->required();
    command
        .add_option("--checkpoint-format", checkpoint_format,
                    "how it is read, against its own label: auto, gptq, gptq_v2 or "
                    "compressed-tensors")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "gptq", "gptq_v2", "compressed-tensors"}));
  };
  CLI::App* inspect = app.add_subcommand(
      "inspect", "what a model folder, packed or dense, holds and what it takes; computes nothing");
  InspectOptions inspect_options;
  add_checkpoint(*inspect);
  inspect->add_flag("--measure", inspect_options.measure,
                    "put weights and cache into memory and read what that takes");
  inspect->add_option("--device", inspect_options.device, "of that: cpu, cuda or cuda:N")
      ->capture_default_str();
  inspect->callback([&] {
    inspect_options.folder = checkpoint;
    inspect_options.checkpoint_format = checkpoint_format;
    code = inspect_command(inspect_options, out);
  });

  CLI::App* generate = app.add_subcommand(
      "generate", "write text behind a prompt; text to stdout as it comes, times to stderr");
  GenerateOptions generate_options;
  add_generate_options(*generate, generate_options);
  generate->callback([&] { code = generate_command(generate_options, std::cin, out, err); });

  CLI::App* validate = app.add_subcommand(
      "validate", "look through a packed checkpoint; one line per fault, exit 1 if there is one");
  add_checkpoint(*validate);
  validate->add_option("--dense", dense,
                       "folder it was made from: weights are held against it, which tells zero "
                       "points of the wrong convention");
  validate->callback([&] { code = validate_command(checkpoint, checkpoint_format, dense, out); });

  CLI::App* convert = app.add_subcommand(
      "convert", "write a packed checkpoint again with the zero points of another format");
  add_checkpoint(*convert);
  convert->add_option("--format", format, "gptq or gptq_v2")->required();
  convert->add_option("--out", target, "folder to write")->required();
  convert->callback(
      [&] { code = convert_command(checkpoint, checkpoint_format, format, target, out); });

  CLI::App* plan = app.add_subcommand(
      "plan", "show the cells of experiments, what they take and what is missing; writes nothing");
  PlanCommandOptions plan_options;
  add_file_options(*plan, plan_options.files);
  plan->add_option("--device", plan_options.device, "cpu, cuda or cuda:N, for times")
      ->capture_default_str();
  plan->add_flag("--measure", plan_options.measure,
                 "quantize two blocks of each cell and evaluate a few windows, to estimate times");
  plan->add_option("--records", plan_options.records,
                   "output folder, or one of such folders, whose records tell times, beside "
                   "results/<experiment name>; repeatable")
      ->allow_extra_args(false);
  plan->callback([&] { code = plan_command(plan_options, out, err); });

  RunCommandOptions rerun_options;
  rerun_options.argv = args;
  CLI::App* rerun = app.add_subcommand(
      "rerun", "run the cell of a record again, from the record alone; exit 1 if results differ");
  rerun->add_option("record", record, "a file of <output>/records")->required();
  add_rerun_options(*rerun, rerun_options);
  rerun->callback([&] { code = rerun_command(record, rerun_options, out, err); });

  CLI::App* report = app.add_subcommand(
      "report", "rebuild all tables of an output folder from its records, print one");
  report->add_option("dir", folder, "output folder, holds records/")->required();
  report->add_option("--format", format, "md, csv, json, latex or html")->default_val("md");
  report->callback([&] { code = report_command(folder, format, out, err); });

  CLI::App* compare =
      app.add_subcommand("compare", "hold new results against old ones; exit 1 if one got worse");
  CompareCommandOptions compare_options;
  add_compare_options(*compare, compare_options);
  compare->callback([&] { code = compare_command(compare_options, out); });

  CLI::App* worker = app.add_subcommand("worker")->group("");  // hidden: see cli_worker.cpp
  WorkerCommandOptions worker_options;
  worker->add_option("--parent", worker_options.parent);
  worker->add_option("--run", worker_options.run);
  worker->add_option("--submission", worker_options.submission);
  worker->add_option("--task", worker_options.task);
  worker->callback([&] { code = worker_command(worker_options, err); });

  CLI::App* list = app.add_subcommand("list", "what this build knows");
  list->add_option("kind", kind,
                   "methods, kernels, datasets, architectures, evaluators, reports or footprints")
      ->required();
  list->callback([&] { code = list_command(kind, out); });

  app.add_subcommand("schema", "every key of an experiment file: type, range, default, meaning")
      ->callback([&] { code = schema_command(out); });
  app.add_subcommand("doctor", "what this machine can run, and what is missing")->callback([&] {
    code = doctor_command(out);
  });

  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend() - 1);
    app.parse(reversed);
    return code;
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? kExitOk : kExitBadInput;
  } catch (const Interrupted& interrupted) {
    err << "gptq-bench: " << interrupted.what() << '\n';
    return kExitInterrupted;
  } catch (const std::exception& error) {
    err << "gptq-bench: " << error.what() << '\n';
    return kExitBadInput;
  }
}

}  // namespace gptqb
