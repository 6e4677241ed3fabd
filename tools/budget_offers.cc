#include "tools/budget_offers.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "core/error.h"
#include "planner/budget/energy.h"
#include "planner/plan/sample_lengths.h"
#include "planner/search/search.h"
#include "tools/launchable.h"
#include "tools/plan_advice.h"
#include "tools/plan_report.h"
#include "tools/request.h"
#include "topologies/node_groups.h"

namespace trireme::tools {
namespace {

constexpr double kDay = 86400;
constexpr double kUsualTokens = 4.0 * 1024 * 1024;  // of a step
// Share of the variance of a step's error that runs on one GPU under one framework have in common:
// intraclass correlation of ln(predicted / measured) of 846 published dense rows in 15 groups.
constexpr double kSharedOnSameGpu = 0.11;
constexpr const char* kSuffix = ",loss=RATE (nodes lost per node and hour)";

double number_of(const std::string& text, const std::string& where, double low, double high) {
  return parse_number(text, where, low, high);
}

// The step that the layout takes which `plan` would put first, or why there is none.
void plan_offer(const BudgetRequest& request, OfferAnswer& answer) {
  refuse_absent_modules(answer.job.model, make_plan(request.layout, std::nullopt));
  planner::SearchOptions search;
  fix_layout(request.layout, search);
  search.threads = 1;
  search.accepts = what_starts;
  const std::vector<std::string> decided = decided_switches(request.job);
  planner::SwitchedSearch found =
      std::move(search_recommended(answer.job, search, decided, true).answer.found);
  if (found.result.space == 0 && use_fewer_gpus(answer.job, search, false)) {
    found = std::move(search_recommended(answer.job, search, decided, true).answer.found);
  }
  answer.job = std::move(found.job);
  const planner::SearchResult& result = found.result;
  if (result.best) {
    answer.estimate = *result.best;
    answer.sizes = near_sizes(answer.job, search, answer.estimate->time.step_seconds);
  } else if (!result.nearest_misses.empty()) {
    answer.reason = "does not fit: " + planner::memory_detail(result.nearest_misses.front().memory);
  } else {
    answer.reason =
        result.rejected.empty() ? "has no legal layout" : result.rejected.front().detail;
  }
}

planner::WholeRun run_of(const BudgetRequest& request, OfferAnswer& answer, double useful) {
  planner::WholeRun run;
  answer.checkpoint = planner::checkpoint_of(answer.job, answer.estimate->plan, request.storage);
  if (request.save_seconds) {
    answer.checkpoint.save_seconds = *request.save_seconds;
    answer.checkpoint.durable_seconds =
        std::max(answer.checkpoint.durable_seconds, *request.save_seconds);
    if (!request.storage.asynchronous) {
      answer.checkpoint.durable_seconds = *request.save_seconds;
    }
  }
  answer.mean_between_seconds =
      request.mean_between_seconds.value_or(planner::mean_seconds_between_failures(
          answer.job.cluster, request.failures, answer.offer.losses_per_node_hour));
  run.useful_seconds = useful;
  run.stops = {.mean_between = answer.mean_between_seconds,
               .restart = request.restart_seconds,
               .save = answer.checkpoint.save_seconds,
               .durable = answer.checkpoint.durable_seconds,
               .least_interval = answer.estimate->time.step_seconds};
  run.interval = request.interval_seconds.value_or(planner::best_interval(run.stops));
  run.repairs = request.repairs;
  run.seed = request.seed;
  run.trials = request.trials;
  run.threads = 1;
  answer.daly_seconds = run.stops.mean_between > 0 ? planner::daly_interval(run.stops) : 0;
  answer.young_seconds = run.stops.mean_between > 0 ? planner::young_interval(run.stops) : 0;
  return run;
}

// Both intervals hold 90 %: of the step by the validation, of the wall time by the trials.
Range joined(double value, double low_a, double high_a, double low_b, double high_b) {
  return {.value = value,
          .low = value * (1 - std::hypot(1 - low_a, 1 - low_b)),
          .high = value * (1 + std::hypot(high_a - 1, high_b - 1))};
}

std::int64_t spare_gpus(const topologies::Cluster& cluster, std::int64_t spares) {
  return std::max<std::int64_t>(0, spares) * cluster.node.gpus;
}

// Of the run and of the spare nodes that wait beside it, where they are counted.
double paid_gpus(const topologies::Cluster& cluster, std::int64_t spares) {
  return static_cast<double>(cluster.gpus + spare_gpus(cluster, spares));
}

// Tokens that fit the deadline or the dollars, where none are asked for.
double tokens_within(const BudgetRequest& request, const OfferAnswer& answer,
                     double tokens_per_second, double goodput) {
  const double gpus = paid_gpus(answer.job.cluster, request.repairs.spares);
  double seconds = request.deadline_seconds.value_or(std::numeric_limits<double>::infinity());
  if (request.dollars && answer.offer.dollars_per_gpu_hour > 0) {
    seconds =
        std::min(seconds, *request.dollars / (answer.offer.dollars_per_gpu_hour * gpus) * 3600);
  }
  return std::isfinite(seconds) ? seconds * goodput * tokens_per_second : 0;
}

// Simulates the run with none and with ever more spare nodes. Nothing where none are needed.
std::optional<SparesWorth> spares_worth(const BudgetRequest& request, const OfferAnswer& answer,
                                        planner::WholeRun run, double seconds) {
  constexpr double kDecides = 1.05;  // of the time with free replacement
  constexpr int kTrials = 200;
  constexpr std::int64_t kMostSpares = 64;
  if (request.repairs.spares >= 0) {
    return std::nullopt;
  }
  run.trials = std::min(run.trials, kTrials);
  const auto with = [&](std::int64_t spares) {
    run.repairs.spares = spares;
    const planner::WholeRunResult result = planner::simulate_run(run);
    SparesWorth worth{.spares = spares};
    worth.days = result.ends ? result.mean_seconds / kDay : std::numeric_limits<double>::infinity();
    worth.dollars =
        answer.offer.dollars_per_gpu_hour * 24 * worth.days * paid_gpus(answer.job.cluster, spares);
    return worth;
  };
  const auto enough = [&](const SparesWorth& worth) {
    return worth.days * kDay <= kDecides * seconds;
  };
  SparesWorth worth = with(0);
  const double days_without = worth.days;
  if (enough(worth)) {
    return std::nullopt;
  }
  std::int64_t too_few = 0;
  while (!enough(worth) && worth.spares < kMostSpares) {
    too_few = worth.spares;
    worth = with(std::max<std::int64_t>(1, 2 * worth.spares));
  }
  while (enough(worth) && worth.spares - too_few > 1) {
    const SparesWorth middle = with((too_few + worth.spares) / 2);
    too_few = enough(middle) ? too_few : middle.spares;
    worth = enough(middle) ? middle : worth;
  }
  while (worth.spares < kMostSpares) {  // one more may save more than it costs
    const SparesWorth more = with(worth.spares + 1);
    if (!(more.dollars < worth.dollars)) {
      break;
    }
    worth = more;
  }
  worth.days_without = days_without;
  return worth;
}

void fill_run(const BudgetRequest& request, OfferAnswer& answer) {
  const planner::TimeEstimate& time = answer.estimate->time;
  const double step = time.step_seconds / (1 - request.straggle);
  const double tokens_per_step =
      static_cast<double>(answer.job.global_batch) * planner::real_tokens(answer.job);
  answer.tokens = request.tokens.value_or(0);
  if (!request.tokens) {
    planner::WholeRun run = run_of(request, answer, 30 * kDay);
    answer.tokens = tokens_within(request, answer, tokens_per_step / step,
                                  planner::goodput_of(run.stops, run.interval));
  }
  const double steps = std::ceil(answer.tokens / tokens_per_step);
  planner::WholeRun run = run_of(request, answer, steps * step);
  const planner::WholeRunResult result = planner::simulate_run(run);
  answer.interval_seconds = run.interval;
  if (!result.ends) {
    answer.reason = fmt::format(
        "does not end: a failure every {:.0f} s leaves no time between a save of {:.0f} s and a "
        "restart of {:.0f} s",
        answer.mean_between_seconds, run.stops.save, run.stops.restart);
    return;
  }
  answer.spare_gpus = spare_gpus(answer.job.cluster, request.repairs.spares);
  answer.spares = spares_worth(request, answer, run, result.mean_seconds);
  answer.goodput = result.goodput;
  answer.failures = result.failures;
  answer.step_low_ratio = time.low_seconds / time.step_seconds;
  answer.step_high_ratio = time.high_seconds / time.step_seconds;
  const double mean = std::max(result.mean_seconds, 1e-9);
  answer.days = joined(result.mean_seconds / kDay, answer.step_low_ratio, answer.step_high_ratio,
                       result.low_seconds / mean, result.high_seconds / mean);
  answer.gpu_hours =
      result.mean_seconds / 3600 * paid_gpus(answer.job.cluster, request.repairs.spares);
  const double price = answer.offer.dollars_per_gpu_hour * 24 *
                       paid_gpus(answer.job.cluster, request.repairs.spares);
  answer.dollars = {price * answer.days.value, price * answer.days.low, price * answer.days.high};
  answer.energy_kwh =
      planner::energy_kwh(answer.job.cluster, result.mean_seconds / 3600, result.goodput);
  answer.in_time =
      !request.deadline_seconds || answer.days.value * kDay <= *request.deadline_seconds * 1.0001;
  answer.in_dollars = !request.dollars || answer.dollars.value <= *request.dollars * 1.0001;
}

OfferAnswer work_out(const BudgetRequest& request, const Offer& offer, std::int64_t batch) {
  OfferAnswer answer;
  answer.offer = offer;
  JobOptions options = request.job;
  options.cluster = offer.name;
  answer.job = make_job(options);
  answer.job.global_batch = batch;
  plan_offer(request, answer);
  if (answer.estimate) {
    fill_run(request, answer);
  }
  return answer;
}

// Half of the width of the interval of ln(value).
double spread(const OfferAnswer& a, double low_ratio, double high_ratio) {
  return a.answered() ? std::log(high_ratio / low_ratio) / 2 : 0;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// "dgx-h100x8..64": the number of nodes doubled from the first to the last. Anything else is one
// offer: the path of a topology file may hold two dots too.
std::vector<Offer> sizes_of(const Offer& offer) {
  const auto dots = offer.name.rfind("..");
  const auto cross = dots == std::string::npos ? dots : offer.name.rfind('x', dots);
  if (cross == std::string::npos || !is_number(offer.name.substr(cross + 1, dots - cross - 1)) ||
      !is_number(offer.name.substr(dots + 2))) {
    return {offer};
  }
  const std::string where = "--offer " + offer.name;
  const std::int64_t first = parse_count(offer.name.substr(cross + 1, dots - cross - 1), where);
  const std::int64_t last = parse_count(offer.name.substr(dots + 2), where);
  if (first > last) {
    throw Error(where, "the nodes go from fewer to more: dgx-h100x8..64=2.50 would be right");
  }
  std::vector<Offer> offers;
  const auto add = [&](std::int64_t nodes) {
    offers.push_back(offer);
    offers.back().name = fmt::format("{}x{}", offer.name.substr(0, cross), nodes);
    offers.back().family = offer.name;
  };
  for (std::int64_t nodes = first; nodes < last; nodes *= 2) {
    add(nodes);
  }
  add(last);
  return offers;
}

}  // namespace

std::vector<Offer> parse_offers(const std::string& text) {
  const auto cut = text.find('=');
  if (text.empty() || cut == 0) {
    throw Error("--offer", fmt::format("'{}' is wrong; CLUSTER=PRICE in dollars per GPU and hour "
                                       "would be right, e.g. dgx-h100x8=2.50",
                                       text));
  }
  Offer offer;
  offer.name = text.substr(0, cut);
  if (cut == std::string::npos) {  // days alone
    return sizes_of(offer);
  }
  const auto comma = text.find(',', cut);
  const std::string price =
      text.substr(cut + 1, comma == std::string::npos ? comma : comma - cut - 1);
  if (price.empty() || price.find_first_not_of("0123456789.+-eE") != std::string::npos) {
    throw Error("--offer " + offer.name,
                fmt::format("'{}' is wrong; a price in dollars per GPU and hour would be right, "
                            "such as 2.50, and behind it there is one suffix, {}",
                            price, kSuffix));
  }
  offer.dollars_per_gpu_hour = number_of(price, "--offer " + offer.name, 0, 1e6);
  if (comma != std::string::npos) {
    const std::string rest = text.substr(comma + 1);
    if (rest.substr(0, 5) != "loss=") {
      throw Error(
          "--offer " + offer.name,
          fmt::format("'{}' is wrong; behind a price there is one suffix, {}", rest, kSuffix));
    }
    offer.losses_per_node_hour = number_of(rest.substr(5), "--offer " + offer.name + " loss", 0, 1);
  }
  return sizes_of(offer);
}

std::int64_t common_batch(const BudgetRequest& request) {
  if (request.job.global_batch) {
    return *request.job.global_batch;
  }
  JobOptions options = request.job;
  std::int64_t most = 1;
  std::int64_t sequence = 1;
  for (const Offer& offer : request.offers) {
    options.cluster = offer.name;
    const planner::Job job = make_job(options);
    most = std::max(most, job.cluster.gpus);
    sequence = job.sequence;
  }
  std::int64_t batch = 1;
  while (static_cast<double>(batch * 2 * sequence) <= kUsualTokens || batch < most) {
    batch *= 2;
  }
  return batch;
}

std::vector<OfferAnswer> work_out_offers(const BudgetRequest& request,
                                         const std::function<void(double)>& done) {
  const std::int64_t batch = common_batch(request);
  std::vector<OfferAnswer> answers(request.offers.size());
  std::vector<std::exception_ptr> errors(answers.size());
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> finished = 0;
  const auto work = [&](bool tells) {
    for (std::size_t at = next++; at < answers.size(); at = next++) {
      try {
        answers[at] = work_out(request, request.offers[at], batch);
      } catch (...) {
        errors[at] = std::current_exception();
      }
      ++finished;
      if (tells && done) {
        done(static_cast<double>(finished) / static_cast<double>(answers.size()));
      }
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < request.threads; ++i) {
    others.emplace_back(work, false);
  }
  work(true);
  for (std::thread& other : others) {
    other.join();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
  return answers;
}

bool cannot_be_told_apart(const OfferAnswer& a, const OfferAnswer& b, bool by_dollars) {
  const Range& left = by_dollars ? a.dollars : a.days;
  const Range& right = by_dollars ? b.dollars : b.days;
  if (!a.answered() || !b.answered() || left.value <= 0 || right.value <= 0) {
    return false;
  }
  if (a.offer.name == b.offer.name) {
    return left.value == right.value;  // one machine: whatever is wrong with it is wrong of both
  }
  const double e_a = spread(a, a.step_low_ratio, a.step_high_ratio);
  const double e_b = spread(b, b.step_low_ratio, b.step_high_ratio);
  const double all_a = spread(a, left.low / left.value, left.high / left.value);
  const double all_b = spread(b, right.low / right.value, right.high / right.value);
  const bool same = topologies::card_names(a.job.cluster) == topologies::card_names(b.job.cluster);
  const double shared = same ? 2 * kSharedOnSameGpu * e_a * e_b : 0;
  const double width = std::sqrt(std::max(0.0, all_a * all_a + all_b * all_b - shared));
  return std::abs(std::log(left.value / right.value)) < width;
}

}  // namespace trireme::tools
