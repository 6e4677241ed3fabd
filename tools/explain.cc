// `trireme explain`: why this layout, with every formula's numbers, the rules of thumb that agree
// or not, and the rival.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "planner/search/explain.h"
#include "planner/search/switched_plan.h"
#include "tools/commands.h"
#include "tools/explain_words.h"
#include "tools/launchable.h"
#include "tools/plan_report.h"
#include "tools/request.h"
#include "tools/sample_options.h"
#include "tools/switches_report.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

using planner::Estimate;

struct ExplainArguments {
  std::string plan_file, against;
  JobOptions job;
  LayoutOptions layout;
  bool json = false;
  bool formulas = false;
};

struct Subject {
  planner::Job job;
  Estimate chosen;
  std::vector<Estimate> rivals;
  std::optional<Estimate> rival;  // the best other set of degrees, or --against
  bool searched = false;
  std::vector<Flip> flips;
  std::vector<planner::SwitchGain> switches;  // of a layout that no plan file says
  std::vector<std::string> axes;
  std::string reason;  // why the best is not the fastest
};

bool same_degrees(const Estimate& a, const Estimate& b) {
  return a.plan.tensor == b.plan.tensor && a.plan.pipeline == b.plan.pipeline &&
         a.plan.context == b.plan.context && a.plan.expert == b.plan.expert &&
         a.plan.sharded == b.plan.sharded && a.plan.replicas == b.plan.replicas;
}

Subject subject_of(const ExplainArguments& options) {
  Subject subject;
  const bool given = !options.plan_file.empty() || !options.layout.layout.empty() ||
                     make_plan(options.layout, std::nullopt) != planner::Plan{};
  if (given) {
    Request request = make_request(options.plan_file, options.job, options.layout);
    subject.job = std::move(request.job);
    planner::Estimator(subject.job).estimate(request.plan, subject.chosen);
    if (options.plan_file.empty()) {  // as `plan` says of it; a file has its own switches
      planner::SwitchedPlan on =
          planner::switched_for(subject.job, request.plan, decided_switches(options.job));
      subject.job = std::move(on.job);
      subject.chosen = std::move(on.estimate);
      subject.switches = std::move(on.switches);
    }
  } else {
    subject.job = make_job(options.job);
    subject.job.global_batch =
        subject.job.global_batch == 0 ? subject.job.cluster.gpus : subject.job.global_batch;
  }
  Recommended recommended =
      search_recommended(subject.job, {}, decided_switches(options.job), !given);
  planner::SwitchedSearch best = std::move(recommended.answer.found);
  planner::SearchResult& found = best.result;
  subject.searched = !given;
  if (!given) {
    if (!found.best) {
      throw Error(
          "explain",
          "no layout fits; 'trireme plan' names the nearest misses, --layout explains one of them");
    }
    subject.job = std::move(best.job);
    subject.reason = std::move(recommended.reason);
    subject.switches = std::move(best.switches);
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
  } else if (const auto other =
                 std::find_if(subject.rivals.begin(), subject.rivals.end(),
                              [&](const Estimate& e) { return !same_degrees(e, subject.chosen); });
             other != subject.rivals.end()) {
    subject.rival = *other;
  }
  if (found.best) {
    subject.flips = what_would_flip(subject.job, found.best->plan);
  }
  subject.axes = why_axes(subject.job, subject.chosen);
  return subject;
}

Json finite_json(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

// The answer in sentences.
std::vector<std::string> words_of(const Subject& subject) {
  std::vector<std::string> words = {"Time: " + what_binds_time(subject.chosen) + ".",
                                    "Memory: " + what_binds_memory(subject.chosen) + "."};
  if (subject.rival) {
    words.push_back("Beside it: " + what_rival_costs(subject.chosen, *subject.rival) + ".");
  }
  if (!subject.reason.empty()) {
    words.push_back("Why not the fastest: " + subject.reason + ".");
  }
  words.insert(words.end(), subject.axes.begin(), subject.axes.end());
  if (subject.flips.empty()) {
    words.emplace_back(
        "Nothing tried flips the choice: half and twice the batch, longer sequences, half the "
        "memory, half and twice the network.");
  }
  for (const Flip& flip : subject.flips) {
    words.push_back(fmt::format("With {}, {} would be the best ({}).", flip.change, flip.layout,
                                duration_text(flip.step_seconds)));
  }
  return words;
}

Json explain_json(const Subject& subject, const planner::Explanation& why) {
  Json formulas;
  for (const planner::FormulaRow& row : why.formulas) {
    formulas[std::string(row.number)] = {
        {"meaning", row.meaning}, {"given", finite_json(row.given)}, {"practice", row.practice}};
  }
  Json json = {{"estimate", estimate_json(subject.job, subject.chosen)},
               {"formulas", formulas},
               {"rules", Json::array()},
               {"warnings", why.warnings},
               {"comparison", Json::array()},
               {"rival", nullptr},
               {"words", words_of(subject)},
               {"switches", switches_json(subject.switches)},
               {"flips", Json::array()}};
  for (const Flip& flip : subject.flips) {
    json["flips"].push_back(
        {{"change", flip.change}, {"layout", flip.layout}, {"step_seconds", flip.step_seconds}});
  }
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

void print_formulas(const Console& console, const planner::Explanation& why) {
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
  fmt::print(console.out,
             "\nd parameters, s bytes an element, P devices, P_t and P_p tensor and pipeline "
             "degree, L layers, h hidden size, b micro-batch, n sequence, m micro-batches, A "
             "activations of a layer, C volume sent\n\n");
  Table families{.head = {"F27", "memory", "pattern", "scalability", "storage"},
                 .rows = {},
                 .text_columns = 5};
  for (const planner::ComparisonRow& row : why.comparison) {
    families.rows.push_back({std::string(planner::to_string(row.family)), row.memory, row.pattern,
                             row.scalability, row.precision});
  }
  print_table(console, families);
}

void print_explanation(const Console& console, const Subject& subject,
                       const planner::Explanation& why, bool formulas) {
  print_heading(console, job_text(subject.job));
  fmt::print(console.out, "{} {}: step {}, {}\n\n",
             subject.searched ? "the best layout is" : "layout",
             planner::short_form(subject.chosen.plan),
             duration_text(subject.chosen.time.step_seconds), verdict(subject.chosen.memory));
  print_switched_on(console, subject.switches, "switched on");
  for (const std::string& sentence : words_of(subject)) {
    fmt::print(console.out, "{}\n", sentence);
  }
  fmt::print(console.out, "\nrules of thumb:\n");
  for (const planner::Verdict& verdict : why.verdicts) {
    fmt::print(console.out, "  {} {}: {} ({})\n", verdict.rule,
               verdict.agrees ? "agrees" : "does not agree", verdict.says, verdict.why);
  }
  fmt::print(console.out, "\nbefore a long run (F24):\n");
  for (const std::string& warning : why.warnings) {
    fmt::print(console.out, "  - {}\n", warning);
  }
  if (formulas) {
    fmt::print(console.out, "\n");
    print_formulas(console, why);
  } else {
    fmt::print(console.out, "\nF1 to F27 with their numbers: --formulas\n");
  }
  fmt::print(console.out, "\nsources: {} ({}); kernel and network constants: profile {}\n",
             subject.job.cluster.gpu.name, subject.job.cluster.gpu.source,
             subject.job.profile.name);
}

int run(const ExplainArguments& options, Console& console) {
  const Subject subject = subject_of(options);
  const planner::Explanation why = planner::explain(subject.job, subject.chosen, subject.rivals);
  if (options.json) {
    print_json(console, "explain", explain_json(subject, why));
  } else {
    print_explanation(console, subject, why, options.formulas);
  }
  return exit_code_of(subject.chosen.memory);
}

}  // namespace

void add_explain_command(Command& app, Program& program) {
  auto options = std::make_shared<ExplainArguments>();
  Command* command = add_command(app, program, "explain",
                                 "why this layout: formulas, rules of thumb, the runner-up",
                                 "trireme explain --model llama-3.1-70b --cluster dgx-h100x8 "
                                 "--global-batch 512 --against tp8.pp4.dp2.mb1");
  add_plan_file_option(*command, options->plan_file);
  add_job_options(*command, options->job);
  add_sample_options(*command, options->job);
  add_layout_options(*command, options->layout);
  command
      ->add_option("--against", options->against,
                   "compare with this layout instead of the runner-up")
      ->type_name("FORM");
  command->add_flag("--formulas", options->formulas,
                    "the formulas F1 to F27 with their numbers too");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
