#include "runner/report/layers_csv.h"

#include "runner/report/csv_table.h"

namespace gptqb {
namespace {

constexpr const char* kColumns[] = {"cell_id",
                                    "layer",
                                    "method",
                                    "bits",
                                    "group_size",
                                    "loss",
                                    "relative_error",
                                    "relative_error_heldout",
                                    "relative_error_rtn",
                                    "drift",
                                    "damping",
                                    "damping_tries",
                                    "condition",
                                    "dead_columns",
                                    "non_finite_inputs",
                                    "outlier_share",
                                    "clipped",
                                    "tokens",
                                    "sequences",
                                    "status",
                                    "seconds_hessian",
                                    "seconds_factor",
                                    "seconds_solve",
                                    "rule",
                                    "rows_solved",
                                    "note",
                                    "codes",
                                    "seconds_errors",
                                    "out_features",
                                    "in_features",
                                    "hessian_shared_by"};

}  // namespace

std::string layers_csv(const std::vector<Record>& records) {
  CsvTable table;
  for (const char* column : kColumns) table.add_column(column);
  for (const Record& record : records) {
    for (const LayerHealth& layer : record.layers) {
      table.add_row();
      table.set("cell_id", record.cell_id);
      table.set("layer", layer.layer);
      table.set("method", layer.method);
      if (layer.bits == QuantConfig::kTernary && layer.method != "none")
        table.set("bits", std::string("ternary"));
      else
        table.set("bits", layer.bits);
      table.set("group_size", layer.group_size);
      table.set("loss", layer.loss);
      table.set("relative_error", layer.relative_error);
      table.set("relative_error_heldout", layer.relative_error_heldout);
      table.set("relative_error_rtn", layer.relative_error_rtn);
      table.set("drift", layer.drift);
      table.set("damping", layer.damping);
      table.set("damping_tries", layer.damping_tries);
      table.set("condition", layer.condition);
      table.set("dead_columns", layer.dead_columns);
      table.set("non_finite_inputs", layer.non_finite_inputs);
      table.set("outlier_share", layer.outlier_share);
      table.set("clipped", layer.clipped);
      table.set("tokens", layer.tokens);
      table.set("sequences", layer.sequences);
      table.set("status", layer.status);
      table.set("seconds_hessian", layer.seconds_hessian);
      table.set("seconds_factor", layer.seconds_factor);
      table.set("seconds_solve", layer.seconds_solve);
      table.set("rule", layer.rule);
      if (layer.rows_solved) table.set("rows_solved", *layer.rows_solved);
      table.set("note", layer.note);
      table.set("codes", layer.codes);
      table.set("seconds_errors", layer.seconds_errors);
      if (layer.in_features > 0) {
        table.set("out_features", layer.out_features);
        table.set("in_features", layer.in_features);
        table.set("hessian_shared_by", layer.hessian_shared_by);
      }
    }
  }
  return table.text();
}

}  // namespace gptqb
