// Keys of a document that make no cell: how it runs, what it makes beside cells, and how cells are
// listed.
#include "runner/schema_sections.h"

namespace gptqb::schema {

using nlohmann::json;

void append_run(std::vector<KeySpec>& table) {
  KeySpec dump =
      word("dump", {"hessians"}, json::array(), "writes H of each layer beside the results");
  dump.arity = Arity::kList;
  dump.scope = Scope::kRun;
  dump.default_text = "[]";
  table.push_back(dump);
  table.push_back(
      with_default(plain("resume", KeyType::kBool, Scope::kRun, "",
                         "keep finished blocks, so that an interrupted run goes on from them"),
                   true));
  for (const char* memory : {"device_memory", "host_memory"})
    table.push_back(with_words(
        with_range(
            with_default(plain(std::string("limits.") + memory, KeyType::kFloat, Scope::kRun, "",
                               "GiB the memory plan may use; on the CPU "
                               "the smaller one holds for all"),
                         "all"),
            std::numeric_limits<double>::min()),
        {"all"}));
}

void append_products(std::vector<KeySpec>& table) {
  table.push_back(plain("save.path", KeyType::kPath, Scope::kProduct, "-",
                        "folder that the packed checkpoint is written to; with several cells that "
                        "quantize, one below it for each, named by its id"));
  KeySpec format =
      word("save.format", {"gptq", "gptq_v2"}, nullptr, "zero points in v1 or v2 convention");
  format.default_text = "gptq if symmetric, else gptq_v2";
  format.scope = Scope::kProduct;
  table.push_back(format);
  KeySpec shard = plain("save.shard_size", KeyType::kFloat, Scope::kProduct, "5", "GB a file");
  shard.default_value = 5.0;
  shard.range.min = std::numeric_limits<double>::min();
  shard.range.max = 1e6;  // a petabyte: no file is larger, and its bytes fit in 64 bits
  table.push_back(shard);
}

void append_structures(std::vector<KeySpec>& table) {
  table.push_back(plain("sweep", KeyType::kStructure, Scope::kDocument, "{}",
                        "dotted key: list of values; every combination becomes a cell"));
  table.push_back(plain("cells", KeyType::kStructure, Scope::kDocument, "-",
                        "list of maps of dotted keys, each a cell (or each crossed with `sweep`)"));
  table.push_back(plain("exclude", KeyType::kStructure, Scope::kDocument, "[]",
                        "list of maps of dotted keys: combinations left out"));
  table.push_back(plain("seeds", KeyType::kStructure, Scope::kDocument, "-",
                        "list of calibration seeds; repeats each cell with each"));
  table.push_back(
      plain("expect", KeyType::kStructure, Scope::kDocument, "[]",
            "list of `{where, metric, value with tolerance.{absolute or relative}, or at_most, or "
            "at_least, source, confidence, note, variant}`; each gets a verdict, but for a value "
            "of other data, as `variant` says. A row of a table: `values` in the order of the "
            "swept key `along`, null where there is none, for all one tolerance or a list"));
  table.push_back(plain(
      "claim", KeyType::kStructure, Scope::kDocument, "-",
      "`{statement, parts: [{metric, of, against, ratio or difference: {at_least, at_most}}]}`: "
      "cells with the settings `of` beside cells with the settings `against` that differ in "
      "nothing else; tables say in a sentence whether the statement holds, fails or depends"));
}

void append_executor(std::vector<KeySpec>& table) {
  KeySpec executor = word("executor.name", {"local", "slurm"}, "local",
                          "where cells run: on this machine, or as jobs of a Slurm cluster");
  executor.scope = Scope::kRun;
  table.push_back(executor);
  KeySpec workers =
      plain("executor.workers", KeyType::kInteger, Scope::kRun, "local: 1; slurm: no limit",
            "cells that run at once; local: each in a process of its own, on the CPU "
            "at most as many as cores, on GPUs as many as GPUs");
  table.push_back(with_range(workers, 1));
  for (const char* text : {"partition", "time", "gres"})
    table.push_back(plain(std::string("executor.") + text, KeyType::kText, Scope::kRun, "-",
                          "slurm: of each cell's job, as for sbatch"));
  table.push_back(with_arity(plain("executor.extra", KeyType::kText, Scope::kRun, "-",
                                   "slurm: more options for sbatch, each one word: `--mem=32G`"),
                             Arity::kList));
}

}  // namespace gptqb::schema
