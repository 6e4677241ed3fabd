// `trireme whatif`: one or more things varied, alone or crossed; every case beside the base.
#include <fmt/format.h>

#include <atomic>
#include <memory>

#include "core/error.h"
#include "core/parallel.h"
#include "tools/commands.h"
#include "tools/fault_options.h"
#include "tools/pages.h"
#include "tools/progress.h"
#include "tools/report_option.h"
#include "tools/sample_options.h"
#include "tools/whatif_report.h"

namespace trireme::tools {
namespace {

struct WhatifArguments {
  WhatIfRequest request;
  std::vector<std::string> vary, stragglers, slow_links, break_even;
  std::string scaling, faster, price;
  std::optional<std::int64_t> threads;
  std::string report;
  bool json = false;
};

int threads_of(const WhatifArguments& options) {
  return static_cast<int>(options.threads.value_or(usable_threads()));
}

// Cases are independent; each one's place in the answer is its own.
std::vector<WhatIfCase> work_out(const WhatifArguments& options, const WhatIfCase& base,
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

// What varies, faults included.
std::vector<Variation> variations_of(const WhatifArguments& options) {
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
  return variations;
}

// "5%" or 0.05.
double share_of(const std::string& text, const std::string& where) {
  const bool per_cent = !text.empty() && text.back() == '%';
  const double number = parse_number(per_cent ? text.substr(0, text.size() - 1) : text, where, 0,
                                     per_cent ? 100 : 1) /
                        (per_cent ? 100 : 1);
  if (!(number > 0) || !(number < 0.95)) {
    throw Error(where, fmt::format("'{}' is wrong; more than 0 and less than 95% would be right, "
                                   "such as 5%",
                                   text));
  }
  return number;
}

WhatIfAnswer answer_of(const WhatifArguments& options, Console& console) {
  const std::vector<Variation> variations = variations_of(options);
  std::vector<BreakEvenRange> ranges;
  for (const std::string& text : options.break_even) {
    ranges.push_back(parse_break_even(text));
  }
  if (!ranges.empty() && options.request.keep_layout) {
    throw Error("--break-even",
                "asks where the layout changes, and --keep-layout keeps it; give "
                "one of them");
  }
  WhatIfAnswer answer;
  answer.faster = options.faster.empty() ? 0 : share_of(options.faster, "--faster");
  if (variations.empty() && ranges.empty() && options.scaling.empty() && answer.faster == 0) {
    throw Error(
        "whatif",
        "nothing varies; give --vary NAME=VALUE,VALUE, --straggler, --slow-link, --scaling, "
        "--break-even or --faster");
  }
  const auto changes = crossed(variations);
  const int threads = threads_of(options);
  answer.base = work_out_base(options.request, threads);
  if (!variations.empty()) {
    answer.cases = work_out(options, answer.base, changes, console);
  }
  if (!options.scaling.empty()) {
    answer.scaling =
        scaling_curves(options.request, answer.base,
                       parse_scaling(options.scaling, answer.base.job.cluster.gpus), threads);
  }
  answer.ranges = ranges;
  for (const BreakEvenRange& range : ranges) {
    for (LayoutChange& change : layout_changes(options.request, answer.base, range, threads)) {
      answer.layout_changes.push_back(std::move(change));
    }
  }
  if (answer.faster > 0) {
    answer.purchases = purchases(options.request, answer.base, answer.faster, threads);
    answer.purchase_remarks = purchase_remarks(options.request, answer.base, answer.purchases);
  }
  return answer;
}

int run(WhatifArguments options, Console& console) {
  if (!options.price.empty()) {
    options.request.dollars_per_gpu_hour = parse_number(options.price, "--price", 0, 1e6);
  }
  const WhatIfAnswer answer = answer_of(options, console);
  if (!options.report.empty()) {
    write_page(options.report, whatif_page(answer));
  }
  if (options.json) {
    print_whatif_json(console, answer);
  } else {
    print_whatif(console, answer);
  }
  return kDone;
}

}  // namespace

void add_whatif_command(Command& app, Program& program) {
  auto options = std::make_shared<WhatifArguments>();
  Command* command = add_command(
      app, program, "whatif", "what would change if: things varied, alone or crossed",
      "trireme whatif --model llama-3.1-70b --cluster dgx-h100x8 --global-batch 512 --vary "
      "nic_bandwidth=0.5x,1x,2x --vary seq=4096,8192");
  add_plan_file_option(*command, options->request.plan_file);
  add_job_options(*command, options->request.job);
  add_sample_options(*command, options->request.job);
  add_layout_options(*command, options->request.layout);
  const auto repeatable = [&](const char* name, std::vector<std::string>& values,
                              const char* description) {
    command->add_option(name, values, description)->repeatable();
  };
  repeatable("--vary", options->vary,
             "NAME=VALUE,VALUE,...: nic_bandwidth nic_latency nvlink_bandwidth nvlink_latency "
             "hbm_bandwidth peak_flops "
             "memory (0.5x, or a value with its unit), gpus, gpu, cluster, seq, global_batch, "
             "micro_batch, "
             "precision, recompute, "
             "framework, schedule, tp pp vpp cp ep etp fsdp dp; several cross");
  repeatable("--straggler", options->stragglers,
             "slower compute: 1.2x@rank3 or 1.2x@stage2 (repeatable)");
  repeatable("--slow-link", options->slow_links,
             "less bandwidth: 0.5x@node2.nic3, 0.5x@nic3, 0.5x@nvlink (repeatable)");
  command
      ->add_option("--scaling", options->scaling,
                   "the same batch on more GPUs, and a batch that grows with them: numbers of "
                   "GPUs 64,128,256, or auto")
      ->type_name("LIST");
  repeatable("--break-even", options->break_even,
             "where the best layout changes as a resource grows: NAME or NAME=0.1x,10x "
             "(nic_bandwidth, memory, ...; repeatable)");
  command
      ->add_option("--faster", options->faster,
                   "what would have to be bought, of each thing alone, for a step this much "
                   "shorter: 5%")
      ->type_name("SHARE");
  command
      ->add_option("--price", options->price,
                   "dollars per GPU and hour of --cluster; others' as --vary "
                   "cluster=dgx-h100x8=2.50")
      ->type_name("$");
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
