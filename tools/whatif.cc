// `trireme whatif`: one or more things varied, alone or crossed; every case beside the base.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/parallel.h"
#include "tools/commands.h"
#include "tools/fault_options.h"
#include "tools/pages.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/report_option.h"
#include "tools/sample_options.h"
#include "tools/table.h"
#include "tools/whatif_cases.h"

namespace trireme::tools {
namespace {

struct Options {
  WhatIfRequest request;
  std::vector<std::string> vary, stragglers, slow_links;
  std::optional<std::int64_t> threads;
  std::string report;
  bool json = false;
};

int threads_of(const Options& options) {
  return static_cast<int>(options.threads.value_or(usable_threads()));
}

// Cases are independent; each one's place in the answer is its own.
std::vector<WhatIfCase> work_out(const Options& options, const WhatIfCase& base,
                                 const std::vector<std::vector<Change>>& changes,
                                 Console& console) {
  std::vector<WhatIfCase> cases(changes.size());
  std::atomic<std::size_t> done = 0;
  Progress progress(console, "working out cases");
  parallel_for(threads_of(options), changes.size(), [&](std::size_t thread, std::size_t at) {
    cases[at] = work_out_case(options.request, base, changes[at]);
    ++done;
    if (thread == 0) {
      progress.show(static_cast<double>(done) / static_cast<double>(changes.size()));
    }
  });
  progress.clear();
  return cases;
}

Json elasticity_json(const Elasticities& elasticity) {
  Json json = Json::object();
  for (const auto& [name, value] : elasticity) {
    json[name] = value;
  }
  return json;
}

Json report_json(const WhatIfCase& base, const std::vector<WhatIfCase>& cases) {
  Json list = Json::array();
  for (const WhatIfCase& mine : cases) {
    Json change = Json::object();
    for (const Change& part : mine.changes) {
      change[part.name] = part.value;
    }
    Json entry = {{"change", change},
                  {"estimate", mine.estimate ? estimate_json(mine.job, *mine.estimate) : Json()},
                  {"step_ratio", mine.estimate ? Json(mine.step_ratio) : Json()},
                  {"notes", mine.notes}};
    if (mine.estimate) {
      entry["bottleneck"] = bottleneck_of(mine.estimate->time.exposed);
      entry["elasticity"] = elasticity_json(mine.elasticity);
    }
    list.push_back(std::move(entry));
  }
  return {{"base", estimate_json(base.job, *base.estimate)},
          {"bottleneck", bottleneck_of(base.estimate->time.exposed)},
          {"elasticity", elasticity_json(base.elasticity)},
          {"cases", list}};
}

std::vector<std::string> row_of(const std::string& name, const WhatIfCase& mine) {
  if (!mine.estimate) {
    return {name, "none", "", "", "", "", ""};
  }
  const planner::Estimate& estimate = *mine.estimate;
  return {name,
          planner::short_form(estimate.plan),
          bottleneck_of(estimate.time.exposed),
          duration_text(estimate.time.step_seconds),
          fmt::format("{:.3f}", mine.step_ratio),
          grouped(estimate.throughput.tokens_per_second),
          fmt::format("{:.1f} GiB{}", estimate.memory.allocated_gib,
                      estimate.memory.fit == planner::Fit::kNo ? " (too much)" : "")};
}

void print_report(const Console& console, const WhatIfCase& base,
                  const std::vector<WhatIfCase>& cases) {
  print_heading(console, job_text(base.job));
  Table table{.head = {"case", "layout", "largest part", "step", "ratio", "tokens/s", "memory"},
              .rows = {row_of("base", base)},
              .text_columns = 3};
  for (const WhatIfCase& mine : cases) {
    std::string name;
    for (const Change& change : mine.changes) {
      name += (name.empty() ? "" : ", ") + change.name + " " + change.value;
    }
    table.rows.push_back(row_of(name, mine));
  }
  print_table(console, table);
  fmt::print(console.out, "\n");
  Table elastic{.head = {"1 % more of", "changes the base's step by"}, .rows = {}};
  for (const auto& [name, value] : base.elasticity) {
    elastic.rows.push_back({name, fmt::format("{:+.2f} %", value)});
  }
  print_table(console, elastic);
  bool first = true;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const std::string& note : cases[i].notes) {
      fmt::print(console.out, "{}{}: {}\n", first ? "\n" : "", table.rows[i + 1].front(), note);
      first = false;
    }
  }
}

int run(const Options& options, Console& console) {
  std::vector<Variation> variations;
  for (const std::string& text : options.vary) {
    variations.push_back(parse_variation(text));
    for (std::size_t i = 0; i + 1 < variations.size(); ++i) {
      if (variations[i].name == variations.back().name) {
        throw Error("--vary", fmt::format("'{}' is given twice; name all its values at once",
                                          variations[i].name));
      }
    }
  }
  for (const std::string& text : options.stragglers) {
    parse_straggler(text);
  }
  for (const std::string& text : options.slow_links) {
    parse_slow_link(text);
  }
  if (!options.stragglers.empty()) {
    variations.push_back({"straggler", options.stragglers});
  }
  if (!options.slow_links.empty()) {
    variations.push_back({"slow_link", options.slow_links});
  }
  if (variations.empty()) {
    throw Error("whatif",
                "nothing varies; give --vary NAME=VALUE,VALUE, --straggler or --slow-link");
  }
  const auto changes = crossed(variations);
  const WhatIfCase base = work_out_base(options.request, threads_of(options));
  const std::vector<WhatIfCase> cases = work_out(options, base, changes, console);
  if (!options.report.empty()) {
    write_page(options.report, whatif_page(base, cases));
  }
  if (options.json) {
    print_json(console, "whatif", report_json(base, cases));
  } else {
    print_report(console, base, cases);
  }
  return kDone;
}

}  // namespace

void add_whatif_command(CLI::App& app, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, program, "whatif", "what would change if: things varied, alone or crossed",
      "trireme whatif --model llama-3.1-70b --cluster dgx-h100x8 --global-batch 512 --vary "
      "nic_bandwidth=0.5x,1x,2x --vary seq=4096,8192");
  add_plan_file_option(*command, options->request.plan_file);
  add_job_options(*command, options->request.job);
  add_sample_options(*command, options->request.job);
  add_layout_options(*command, options->request.layout);
  const auto repeatable = [&](const char* name, std::vector<std::string>& values,
                              const char* description) {
    command->add_option(name, values, description)
        ->take_all()
        ->expected(1)
        ->allow_extra_args(false);
  };
  repeatable("--vary", options->vary,
             "NAME=VALUE,VALUE,...: nic_bandwidth nic_latency nvlink_bandwidth nvlink_latency "
             "hbm_bandwidth peak_flops "
             "memory (0.5x, or a value with its unit), gpus, gpu, seq, global_batch, micro_batch, "
             "precision, recompute, "
             "framework, schedule; several cross");
  repeatable("--straggler", options->stragglers,
             "slower compute: 1.2x@rank3 or 1.2x@stage2 (repeatable)");
  repeatable("--slow-link", options->slow_links,
             "less bandwidth: 0.5x@node2.nic3, 0.5x@nic3, 0.5x@nvlink (repeatable)");
  command->add_flag("--keep-layout", options->request.keep_layout,
                    "keep the base's layout instead of planning again");
  command->add_flag("--simulate", options->request.simulate, "judge every case by simulation");
  add_count_option(*command, "--threads", options->threads, "threads (default: all cores)", 1,
                   1024);
  add_report_option(*command, options->report);
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
