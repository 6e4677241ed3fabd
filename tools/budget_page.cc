#include <fmt/format.h>

#include <set>

#include "tools/budget_report.h"
#include "tools/page_parts.h"
#include "tools/pages.h"

namespace trireme::tools {
namespace {

std::string dollars(double value) {
  return value >= 1e6 ? fmt::format("${:.2f}M", value / 1e6) : fmt::format("${}", grouped(value));
}

void add_family(const OfferFamily& family, const std::vector<OfferAnswer>& answers, Page& page) {
  LineChart chart{
      .title = family.name + ": days over GPUs",
      .x_name = "GPUs",
      .y_name = "days for as many tokens (band: 90 % interval)",
      .lines = {{.name = "days"}, {.name = "as many GPU-hours as the first", .dashed = true}},
      .marks = {},
      .logarithmic = true};
  for (const FamilyPoint& point : family.points) {
    const OfferAnswer& answer = answers[point.answer];
    const auto gpus = static_cast<double>(answer.job.cluster.gpus);
    const OfferAnswer& first = answers[family.points.front().answer];
    chart.lines[0].points.push_back(
        {.name = answer.offer.name,
         .text = fmt::format("{}, {:.1f} % of the first's efficiency", days_text(answer.days.value),
                             100 * point.efficiency),
         .x = gpus,
         .y = answer.days.value,
         .low = answer.days.low,
         .high = answer.days.high});
    chart.lines[1].points.push_back(
        {.x = gpus,
         .y = first.days.value * static_cast<double>(first.job.cluster.gpus) / gpus *
              answer.tokens / first.tokens});
  }
  if (family.knee_gpus) {
    chart.marks.push_back({static_cast<double>(*family.knee_gpus), "knee"});
  }
  if (chart.lines[0].points.size() > 1) {
    page.lines(chart);
  }
}

void add_request(const BudgetRequest& request, const std::vector<OfferAnswer>& answers,
                 Page& page) {
  std::string prices;
  for (const OfferAnswer& answer : answers) {
    if (answer.offer.dollars_per_gpu_hour > 0) {
      prices += fmt::format("{}{} ${:g}", prices.empty() ? "" : ", ", answer.offer.name,
                            answer.offer.dollars_per_gpu_hour);
    }
  }
  if (!answers.empty()) {
    page.text(fmt::format("Sequence {}, batch {}{}{}.", answers.front().job.sequence,
                          answers.front().job.global_batch,
                          prices.empty() ? "" : "; dollars per GPU and hour: ", prices));
  }
  const bool published = !request.mean_between_seconds && !request.failures.source.empty();
  page.text(fmt::format("{}. {} simulated runs an offer, seed {}.{}{}", assumptions_text(request),
                        request.trials, request.seed, published ? " Failures: " : "",
                        published ? request.failures.source : ""));
}

// Cards of the offers behind the first, whose own is named with the rest of what it rests on.
void add_other_gpus(const std::vector<OfferAnswer>& answers, Page& page) {
  std::set<std::string> named = {answers.front().job.cluster.gpu.name};
  for (const OfferAnswer& answer : answers) {
    const topologies::Gpu& gpu = answer.job.cluster.gpu;
    if (named.insert(gpu.name).second) {
      page.text(fmt::format("{}: {}.", gpu.name, gpu.source));
    }
  }
}

}  // namespace

Page budget_page(const BudgetRequest& request, const std::vector<OfferAnswer>& answers) {
  Page page(answers.empty()
                ? "budget"
                : fmt::format("{}: {} tokens", answers.front().job.model.name,
                              count_text(request.tokens.value_or(answers.front().tokens))));
  BarChart cost{.title = "Dollars (line: 90 % interval)", .bars = {}};
  BarChart days{.title = "Days (line: 90 % interval)", .bars = {}};
  if (request.dollars) {
    cost.limit = *request.dollars;
    cost.limit_name = dollars(*request.dollars);
  }
  if (request.deadline_seconds) {
    days.limit = *request.deadline_seconds / 86400;
    days.limit_name = fmt::format("the deadline, {:.1f} days", days.limit);
  }
  for (const OfferAnswer& answer : answers) {
    if (!answer.answered()) {
      continue;
    }
    const Range& price = answer.dollars;
    const double lost = 1 - answer.goodput;
    cost.bars.push_back({.name = answer.offer.name,
                         .text = fmt::format("{} ({} to {})", dollars(price.value),
                                             dollars(price.low), dollars(price.high)),
                         .parts = {{"training", price.value * answer.goodput},
                                   {"failures and saves", price.value * lost}},
                         .low = price.low,
                         .high = price.high});
    const Range& time = answer.days;
    days.bars.push_back({.name = answer.offer.name,
                         .text = fmt::format("{:.1f} ({:.1f} to {:.1f}), {:.1f} failures expected",
                                             time.value, time.low, time.high, answer.failures),
                         .parts = {{"training", time.value * answer.goodput},
                                   {"failures and saves", time.value * lost}},
                         .low = time.low,
                         .high = time.high});
  }
  if (has_prices(answers)) {
    page.bars(cost);
  }
  page.bars(days);
  for (const OfferFamily& family : families_of(answers)) {
    add_family(family, answers, page);
  }
  page.heading("The offers");
  page.table(budget_table(answers));
  for (const std::string& line : budget_remarks(request, answers)) {
    page.text(line);
  }
  page.heading("What was asked");
  add_request(request, answers, page);
  if (!answers.empty()) {
    add_provenance(answers.front().job, page);
    add_other_gpus(answers, page);
  }
  return page;
}

}  // namespace trireme::tools
