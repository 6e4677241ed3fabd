// `trireme estimate`: one layout's memory and time, item by item, in closed form.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "planner/cost/estimate.h"
#include "tools/commands.h"
#include "tools/launchable.h"
#include "tools/limit.h"
#include "tools/pages.h"
#include "tools/report.h"
#include "tools/report_option.h"
#include "tools/request.h"
#include "tools/sample_options.h"
#include "tools/switches_report.h"

namespace trireme::tools {
namespace {

struct EstimateArguments {
  std::string plan_file;
  JobOptions job;
  LayoutOptions layout;
  std::string report;
  bool json = false;
};

// Of a layout that does not fit.
void print_what_helps(const Console& console, const Request& request, const planner::Plan& plan) {
  const std::string settings =
      fitting_switches(request.job, plan, decided_switches(request.options));
  if (!settings.empty()) {
    fmt::print(console.out, "{}\n", settings);
  }
  if (plan.sharding == planner::Sharding::kNone) {
    const bool full = request.job.framework.sharder != planner::Sharder::kBuffers;
    fmt::print(console.out,
               "\nnothing is sharded; --sharding {} shards, and `trireme plan` with the same "
               "options searches for what fits\n",
               full ? "full" : "optimizer");
  }
}

int run(const EstimateArguments& options, Console& console) {
  const Request request = make_request(options.plan_file, options.job, options.layout);
  planner::Estimate estimate;
  planner::Estimator(request.job).estimate(request.plan, estimate);
  if (!options.report.empty()) {
    write_page(options.report, estimate_page(request.job, estimate));
  }
  if (options.json) {
    Json json = estimate_json(request.job, estimate);
    double seconds = 0;
    Json items = Json::array();
    for (const LimitItem& item : limit_of(request.job, estimate)) {
      seconds += item.seconds;
      items.push_back({{"name", item.name}, {"seconds", item.seconds}});
    }
    json["limit"] = {
        {"seconds", seconds}, {"share", seconds / estimate.time.step_seconds}, {"items", items}};
    json["with_switches"] =
        told_switches_json(request.job, request.plan, decided_switches(request.options));
    print_json(console, "estimate", json);
  } else {
    print_estimate(console, request.job, estimate);
    if (const std::string told =
            told_switches(request.job, estimate, decided_switches(request.options));
        !told.empty()) {
      fmt::print(console.out, "{}\n", told);
    }
    if (estimate.memory.fit == planner::Fit::kNo) {
      print_what_helps(console, request, estimate.plan);
    }
  }
  return exit_code_of(estimate.memory);
}

}  // namespace

void add_estimate_command(Command& app, Program& program) {
  auto options = std::make_shared<EstimateArguments>();
  Command* command = add_command(
      app, program, "estimate", "memory and step time of one layout, item by item",
      "trireme estimate --model llama-3.1-8b --cluster dgx-h100x1 --seq 8192 --sharding full");
  add_plan_file_option(*command, options->plan_file);
  add_job_options(*command, options->job);
  add_sample_options(*command, options->job);
  add_layout_options(*command, options->layout);
  add_report_option(*command, options->report);
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
