// `trireme explain`: why this layout, with every formula's numbers, the rules of thumb that agree
// or not, and the rival.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "planner/search/explain.h"
#include "tools/commands.h"
#include "tools/plan_report.h"
#include "tools/request.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

using planner::Estimate;

struct Options {
  std::string plan_file, against;
  JobOptions job;
  LayoutOptions layout;
  bool json = false;
};

struct Subject {
  planner::Job job;
  Estimate chosen;
  std::vector<Estimate> rivals;
  std::optional<Estimate> rival;  // the runner-up, or --against
  bool searched = false;
};

Subject subject_of(const Options& options) {
  Subject subject;
  const bool given = !options.plan_file.empty() || !options.layout.layout.empty() ||
                     make_plan(options.layout, std::nullopt) != planner::Plan{};
  if (given) {
    Request request = make_request(options.plan_file, options.job, options.layout);
    subject.job = std::move(request.job);
    planner::Estimator(subject.job).estimate(request.plan, subject.chosen);
  } else {
    subject.job = make_job(options.job);
    subject.job.global_batch =
        subject.job.global_batch == 0 ? subject.job.cluster.gpus : subject.job.global_batch;
  }
  planner::SearchResult found = planner::search(subject.job, {});
  subject.searched = !given;
  if (!given) {
    if (!found.best) {
      throw Error(
          "explain",
          "no layout fits; 'trireme plan' names the nearest misses, --layout explains one of them");
    }
    subject.chosen = *found.best;
    subject.rivals = std::move(found.alternatives);
  } else if (found.best) {
    subject.rivals = std::move(found.alternatives);
    subject.rivals.insert(subject.rivals.begin(), *found.best);
  }
  if (!options.against.empty()) {
    LayoutOptions other;
    other.layout = options.against;
    planner::Plan plan = make_plan(other, subject.job.cluster.gpus);
    complete(subject.job, plan);
    subject.rival.emplace();
    planner::Estimator(subject.job).estimate(plan, *subject.rival);
  } else if (!subject.rivals.empty()) {
    subject.rival = subject.rivals.front();
  }
  return subject;
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json explain_json(const Subject& subject, const planner::Explanation& why) {
  Json formulas;
  for (const planner::FormulaRow& row : why.formulas) {
    formulas[std::string(row.number)] = {
        {"meaning", row.meaning}, {"given", number(row.given)}, {"practice", row.practice}};
  }
  Json json = {{"estimate", estimate_json(subject.job, subject.chosen)},
               {"formulas", formulas},
               {"rules", Json::array()},
               {"warnings", why.warnings},
               {"comparison", Json::array()},
               {"rival", nullptr}};
  for (const planner::Verdict& verdict : why.verdicts) {
    json["rules"].push_back({{"rule", verdict.rule},
                             {"says", verdict.says},
                             {"why", verdict.why},
                             {"agrees", verdict.agrees}});
  }
  for (const planner::ComparisonRow& row : why.comparison) {
    json["comparison"].push_back({{"family", planner::to_string(row.family)},
                                  {"memory", row.memory},
                                  {"pattern", row.pattern},
                                  {"scalability", row.scalability},
                                  {"precision", row.precision}});
  }
  if (subject.rival) {
    Json lost;
    for (const planner::Difference& d :
         planner::differences(subject.chosen.time, subject.rival->time)) {
      lost[std::string(d.category)] = d.seconds;
    }
    json["rival"] = {{"layout", layout_json(subject.rival->plan)},
                     {"step_seconds", subject.rival->time.step_seconds},
                     {"fit", to_string(subject.rival->memory.fit)},
                     {"difference_seconds", lost}};
  }
  json["sources"] = {{"gpu", subject.job.cluster.gpu.source},
                     {"profile", subject.job.profile.name}};
  return json;
}

void print_rival(const Console& console, const Subject& subject) {
  if (!subject.rival) {
    return;
  }
  const Estimate& rival = *subject.rival;
  const double ratio = rival.time.step_seconds / subject.chosen.time.step_seconds;
  print_heading(console,
                fmt::format("beside {}: {} ({:+.1f} %), {}", planner::short_form(rival.plan),
                            duration_text(rival.time.step_seconds), 100 * (ratio - 1),
                            verdict(rival.memory)));
  int shown = 0;
  for (const planner::Difference& d : planner::differences(subject.chosen.time, rival.time)) {
    if (d.seconds != 0 && shown++ < 4) {
      fmt::print(console.out, "  {} {}{}\n", d.category, d.seconds > 0 ? "+" : "-",
                 duration_text(std::abs(d.seconds)));
    }
  }
  fmt::print(console.out, "  memory {:+.1f} GiB\n\n",
             rival.memory.allocated_gib - subject.chosen.memory.allocated_gib);
}

void print_explanation(const Console& console, const Subject& subject,
                       const planner::Explanation& why) {
  print_heading(console, job_text(subject.job));
  fmt::print(console.out, "{} {}: step {}, {}\n\n",
             subject.searched ? "the best layout is" : "layout",
             planner::short_form(subject.chosen.plan),
             duration_text(subject.chosen.time.step_seconds), verdict(subject.chosen.memory));
  print_rival(console, subject);
  Table table{.head = {"", "as given", "value", "in practice, the detailed model"},
              .rows = {},
              .text_columns = 4};
  for (const planner::FormulaRow& row : why.formulas) {
    const bool has = row.number != "F8" && row.number != "F25";
    table.rows.push_back({std::string(row.number), std::string(row.meaning),
                          !has                       ? ""
                          : std::isfinite(row.given) ? fmt::format("{:.4g}", row.given)
                                                     : "-",
                          row.practice});
  }
  print_table(console, table);
  fmt::print(console.out, "\n");
  for (const planner::Verdict& verdict : why.verdicts) {
    fmt::print(console.out, "{} {}: {} ({})\n", verdict.rule,
               verdict.agrees ? "agrees" : "does not agree", verdict.says, verdict.why);
  }
  fmt::print(console.out, "\nF24, before a long run:\n");
  for (const std::string& warning : why.warnings) {
    fmt::print(console.out, "  - {}\n", warning);
  }
  fmt::print(console.out, "\n");
  Table families{.head = {"F27", "memory", "pattern", "scalability", "storage"},
                 .rows = {},
                 .text_columns = 5};
  for (const planner::ComparisonRow& row : why.comparison) {
    families.rows.push_back({std::string(planner::to_string(row.family)), row.memory, row.pattern,
                             row.scalability, row.precision});
  }
  print_table(console, families);
  fmt::print(console.out, "\nsources: {} ({}); kernel and network constants: profile {}\n",
             subject.job.cluster.gpu.name, subject.job.cluster.gpu.source,
             subject.job.profile.name);
}

int run(const Options& options, Console& console) {
  const Subject subject = subject_of(options);
  const planner::Explanation why = planner::explain(subject.job, subject.chosen, subject.rivals);
  if (options.json) {
    print_json(console, "explain", explain_json(subject, why));
  } else {
    print_explanation(console, subject, why);
  }
  return exit_code_of(subject.chosen.memory);
}

}  // namespace

void add_explain_command(CLI::App& app, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, program, "explain",
                                  "why this layout: formulas, rules of thumb, the runner-up",
                                  "trireme explain --model llama-3.1-70b --cluster dgx-h100x8 "
                                  "--global-batch 512 --against tp8.pp4.dp2.mb1");
  add_plan_file_option(*command, options->plan_file);
  add_job_options(*command, options->job);
  add_layout_options(*command, options->layout);
  command
      ->add_option("--against", options->against,
                   "compare with this layout instead of the runner-up")
      ->type_name("FORM");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
