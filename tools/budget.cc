// `trireme budget`: days, dollars and energy of a whole run over a list of offers, with failures.
#include <fmt/format.h>

#include <memory>
#include <thread>

#include "core/error.h"
#include "tools/budget_report.h"
#include "tools/commands.h"
#include "tools/pages.h"
#include "tools/progress.h"
#include "tools/report_option.h"
#include "tools/sample_options.h"

namespace trireme::tools {
namespace {

struct BudgetArguments {
  JobOptions job;
  LayoutOptions layout;
  std::vector<std::string> offers;
  std::string tokens, deadline, dollars, mtbf, failures = "settled", restart = "10m", checkpoint,
                                               interval, storage, straggle, repair,
                                               speed_without_one;
  bool synchronous = false;
  std::optional<std::int64_t> spares, seed, trials, threads;
  std::string report;
  bool json = false;
};

// "15T", "300B", "3.1h": a number and the unit's factor.
double with_unit(const std::string& text, const std::string& where,
                 const std::vector<std::pair<std::string, double>>& units, const char* right) {
  std::size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.')) {
    ++digits;
  }
  const std::string unit = text.substr(digits);
  for (const auto& [name, factor] : units) {
    if (unit == name && digits > 0) {
      return factor * parse_number(text.substr(0, digits), where, 0, 1e15);
    }
  }
  throw Error(where, fmt::format("'{}' is wrong; {} would be right", text, right));
}

double count_of(const std::string& text, const std::string& where) {
  const double count =
      with_unit(text, where,
                {{"", 1}, {"K", 1e3}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}},
                "a number such as 15T, 300B or 5M");
  if (!(count >= 1) || count > 1e17) {
    throw Error(where, fmt::format("'{}' is wrong; a number from 1 to 1e17 would be right", text));
  }
  return count;
}

double seconds_of(const std::string& text, const std::string& where) {
  return with_unit(text, where,
                   {{"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"", 1}},
                   "a time such as 30d, 6h, 10m or 45s");
}

std::optional<double> optional_seconds(const std::string& text, const std::string& where) {
  return text.empty() ? std::nullopt : std::optional<double>(seconds_of(text, where));
}

// Of a second or more: what is divided by it, or ends before it begins, means nothing.
std::optional<double> seconds_above_zero(const std::string& text, const std::string& where) {
  const std::optional<double> seconds = optional_seconds(text, where);
  if (seconds && *seconds < 1) {
    throw Error(
        where,
        fmt::format("'{}' is wrong; a time of 1 s or more, such as 6h, would be right", text));
  }
  return seconds;
}

BudgetRequest request_of(const BudgetArguments& options) {
  BudgetRequest request;
  request.job = options.job;
  request.layout = options.layout;
  for (const std::string& text : options.offers) {
    for (Offer& offer : parse_offers(text)) {
      request.offers.push_back(std::move(offer));
    }
  }
  if (request.offers.empty()) {
    throw Error("--offer",
                "is missing; CLUSTER=PRICE in dollars per GPU and hour is needed at "
                "least once, e.g. --offer dgx-h100x8=2.50");
  }
  if (!options.tokens.empty()) {
    request.tokens = count_of(options.tokens, "--tokens");
  }
  request.deadline_seconds = seconds_above_zero(options.deadline, "--deadline");
  if (!options.dollars.empty()) {
    request.dollars = count_of(options.dollars, "--max-dollars");
  }
  if (!request.tokens && !request.deadline_seconds && !request.dollars) {
    throw Error("--tokens",
                "is missing; how many to train on (15T), or --deadline or "
                "--max-dollars, is needed");
  }
  for (const Offer& offer : request.offers) {
    if (request.dollars && offer.dollars_per_gpu_hour <= 0) {
      throw Error(
          "--max-dollars",
          fmt::format("needs a price of every offer: --offer {}=2.50 would be right", offer.name));
    }
  }
  request.failures = planner::find_failure_rate(options.failures);
  request.mean_between_seconds = seconds_above_zero(options.mtbf, "--mtbf");
  request.restart_seconds = seconds_of(options.restart, "--restart");
  request.save_seconds = optional_seconds(options.checkpoint, "--checkpoint");
  request.interval_seconds = seconds_above_zero(options.interval, "--interval");
  request.storage.asynchronous = !options.synchronous;
  if (!options.storage.empty()) {
    request.storage.write_gbytes_per_second = parse_number(options.storage, "--storage", 1e-3, 1e6);
  }
  if (!options.straggle.empty()) {
    request.straggle = parse_number(options.straggle, "--straggle", 0, 0.9);
  }
  request.repairs.spares = options.spares.value_or(-1);
  request.repairs.seconds = options.repair.empty() ? 86400 : seconds_of(options.repair, "--repair");
  if (!options.speed_without_one.empty()) {
    request.repairs.speed_without_one =
        parse_number(options.speed_without_one, "--elastic", 0.01, 1);
  }
  request.seed = static_cast<std::uint64_t>(options.seed.value_or(1));
  request.trials = static_cast<int>(options.trials.value_or(2000));
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  request.threads =
      static_cast<int>(options.threads.value_or(std::clamp<std::int64_t>(cores, 1, 64)));
  return request;
}

int run(const BudgetArguments& options, Console& console) {
  const BudgetRequest request = request_of(options);
  Progress progress(console, "working out offers");
  const std::vector<OfferAnswer> answers =
      work_out_offers(request, [&](double share) { progress.show(share); });
  progress.clear();
  if (!options.report.empty()) {
    write_page(options.report, budget_page(request, answers));
  }
  if (options.json) {
    print_budget_json(console, request, answers);
  } else {
    print_budget(console, request, answers);
  }
  const bool any = std::any_of(answers.begin(), answers.end(), [](const OfferAnswer& answer) {
    return answer.answered() && answer.in_time && answer.in_dollars;
  });
  return any ? kDone : kAnswerIsNo;
}

void add_failure_options(Command& command, BudgetArguments& options) {
  command
      .add_option("--failures", options.failures,
                  "a published rate (settled llama-3 meta-100k rsc-1 rsc-2 bloom opt none), or "
                  "failures per 1000 node-days of 8 GPUs (default settled: 4)")
      ->type_name("RATE");
  command
      .add_option("--mtbf", options.mtbf,
                  "time between failures of the whole job: 6h, 30m, a bare number is seconds; over "
                  "--failures")
      ->type_name("TIME");
  command
      .add_option("--restart", options.restart, "from a failure to training again (default 10m)")
      ->type_name("TIME");
  command
      .add_option("--checkpoint", options.checkpoint,
                  "time that training waits for a save (default: from the state's bytes)")
      ->type_name("TIME");
  command
      .add_option("--interval", options.interval,
                  "training time between saves (default: the best one)")
      ->type_name("TIME");
  command
      .add_option("--storage", options.storage,
                  "GB/s written by all nodes together (default 1 GB/s a node)")
      ->type_name("GB/s");
  command.add_flag("--synchronous", options.synchronous,
                   "training waits until a save is written, not only copied to the host");
  command
      .add_option("--straggle", options.straggle,
                  "share of the time that slow parts cost beyond the measured step (default 0)")
      ->type_name("SHARE");
  add_count_option(
      command, "--spares", options.spares,
      "nodes that stand by and are paid for (default: the provider replaces a failed one at "
      "once, and nothing is paid for it)",
      0, 1'000'000);
  command.add_option("--repair", options.repair, "until a failed node is back (default 1d)")
      ->type_name("TIME");
  command
      .add_option("--elastic", options.speed_without_one,
                  "speed with a replica less, when no spare is left (default: wait)")
      ->type_name("SHARE");
  add_count_option(command, "--seed", options.seed, "of the simulated runs (default 1)");
  add_count_option(command, "--trials", options.trials, "simulated runs an offer (default 2000)", 1,
                   1'000'000);
}

}  // namespace

void add_budget_command(Command& app, Program& program) {
  auto options = std::make_shared<BudgetArguments>();
  Command* command = add_command(
      app, program, "budget", "days, dollars and energy of a whole run over offers, with failures",
      "trireme budget --model llama-3.1-70b --seq 8192 --tokens 1T --offer dgx-h100x32=2.50 "
      "--offer hgx-h200x32=3.40");
  add_job_options(*command, options->job);
  add_sample_options(*command, options->job);
  add_layout_options(*command, options->layout);
  command
      ->add_option(
          "--offer", options->offers,
          "CLUSTER=PRICE in dollars per GPU and hour, or CLUSTER for days alone (the number behind "
          "a preset counts nodes, 16xGB200 are 16 GPUs); dgx-h100x8..64=2.50 offers 8, 16, "
          "32 and 64 nodes, and tells where more stop to pay; ,loss=RATE: nodes of it lost "
          "per node and hour (spot); repeatable. All train with one batch: --global-batch, else "
          "some 4M tokens, and a sequence at least for each GPU of the largest offer")
      ->type_name("CLUSTER=PRICE")
      ->repeatable();
  command->add_option("--tokens", options->tokens, "tokens to train on: 15T, 300B")->type_name("N");
  command->add_option("--deadline", options->deadline, "until when: 30d, 720h")->type_name("TIME");
  command->add_option("--max-dollars", options->dollars, "what it may cost: 2M, 250k")
      ->type_name("$");
  add_failure_options(*command, *options);
  add_count_option(*command, "--threads", options->threads, "threads (default: all cores)", 1,
                   1024);
  add_report_option(*command, options->report);
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
