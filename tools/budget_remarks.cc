#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/budget_report.h"

namespace trireme::tools {
namespace {

std::string spare_nodes_text(std::int64_t nodes) {
  return fmt::format("{} spare node{}", nodes, nodes == 1 ? "" : "s");
}

// What the answer owes to free replacement of failed nodes.
std::string spares_text(const BudgetRequest& request, const OfferAnswer& answer) {
  const SparesWorth& worth = *answer.spares;
  const std::string without =
      std::isfinite(worth.days_without) ? "takes " + days_text(worth.days_without) : "does not end";
  const std::string price =
      worth.dollars > 0 ? fmt::format(" and ${}", dollars_text(worth.dollars)) : "";
  const std::string with =
      std::isfinite(worth.days)
          ? fmt::format("; {}, paid for, bring{} {}{} (--spares {})",
                        spare_nodes_text(worth.spares), worth.spares == 1 ? "s" : "",
                        days_text(worth.days), price, worth.spares)
          : "";
  return fmt::format(
      "what spares are worth: the {} of {} take a failed node to be replaced at once; "
      "with "
      "none to replace it, and {} to repair (--repair), it {}{}",
      days_text(answer.days.value), answer.offer.name, span_text(request.repairs.seconds), without,
      with);
}

// What was tried, where nothing of it is a knee: of one size alone nothing follows for another.
std::string size_knee_text(const OfferFamily& family, const std::vector<OfferAnswer>& answers) {
  if (family.knee_gpus) {
    return fmt::format("{}: beyond {} GPUs, 1 % more of them buys less than 0.5 % more speed",
                       family.name, *family.knee_gpus);
  }
  std::vector<std::int64_t> tried;
  for (const FamilyPoint& point : family.points) {
    tried.push_back(answers[point.answer].job.cluster.gpus);
  }
  return tried.size() < 2
             ? fmt::format("{}: {} GPUs alone could be tried, which says nothing of more nodes",
                           family.name, fmt::join(tried, ", "))
             : fmt::format("{}: no knee among {} GPUs, more nodes still pay", family.name,
                           fmt::join(tried, ", "));
}

std::string fastest_text(const std::vector<OfferAnswer>& answers, std::ptrdiff_t first,
                         std::ptrdiff_t quick) {
  const OfferAnswer& slow = answers[static_cast<std::size_t>(first)];
  const OfferAnswer& fast = answers[static_cast<std::size_t>(quick)];
  return fmt::format("{}, whose time can be told apart: the least of them, {} ({} {})",
                     fast.offer.name, days_text(fast.days.value), slow.offer.name,
                     days_text(slow.days.value));
}

}  // namespace

bool has_prices(const std::vector<OfferAnswer>& answers) {
  return std::all_of(answers.begin(), answers.end(), [](const OfferAnswer& answer) {
    return answer.offer.dollars_per_gpu_hour > 0;
  });
}

std::string dollars_text(double dollars) {
  return dollars >= 1e6   ? fmt::format("{:.2f}M", dollars / 1e6)
         : dollars >= 1e4 ? fmt::format("{:.1f}k", dollars / 1e3)
                          : fmt::format("{:.0f}", dollars);
}

std::string days_text(double days) {
  return days < 1 ? span_text(days * 86400) : fmt::format("{:.1f} days", days);
}

std::vector<std::pair<std::size_t, std::size_t>> alike(const std::vector<OfferAnswer>& answers) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  const bool by_dollars = has_prices(answers);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    for (std::size_t j = i + 1; j < answers.size(); ++j) {
      if (cannot_be_told_apart(answers[i], answers[j], by_dollars)) {
        pairs.emplace_back(i, j);
      }
    }
  }
  return pairs;
}

std::ptrdiff_t fastest_alike(const std::vector<OfferAnswer>& answers, const BudgetChoice& choice) {
  if (choice.cheapest < 0 || !has_prices(answers)) {
    return -1;
  }
  const OfferAnswer& cheapest = answers[static_cast<std::size_t>(choice.cheapest)];
  const OfferAnswer* best = &cheapest;
  for (const OfferAnswer& other : answers) {
    if (&other != &cheapest && cannot_be_told_apart(cheapest, other, true) &&
        other.days.value < best->days.value) {
      best = &other;
    }
  }
  const bool told = best != &cheapest && !cannot_be_told_apart(cheapest, *best, false);
  return told ? best - answers.data() : -1;
}

std::vector<std::string> budget_remarks(const BudgetRequest& request,
                                        const std::vector<OfferAnswer>& answers) {
  std::vector<std::string> remarks;
  const BudgetChoice choice = choose(answers);
  const auto tell = [&](const char* what, std::ptrdiff_t index) {
    if (index >= 0) {
      remarks.push_back(
          fmt::format("{}: {}", what, answers[static_cast<std::size_t>(index)].offer.name));
    }
  };
  tell(request.deadline_seconds ? "cheapest before the deadline" : "cheapest", choice.cheapest);
  tell(request.dollars ? "fastest within the dollars" : "fastest", choice.fastest);
  tell("fewest GPUs", choice.least);
  if (request.deadline_seconds && choice.cheapest < 0) {
    remarks.push_back(fmt::format("no offer ends within the deadline of {}",
                                  span_text(*request.deadline_seconds)));
  }
  if (request.dollars && choice.fastest < 0) {
    remarks.push_back(fmt::format("no offer ends within {:.0f} dollars", *request.dollars));
  }
  for (const OfferFamily& family : families_of(answers)) {
    remarks.push_back(size_knee_text(family, answers));
  }
  const std::ptrdiff_t first = choice.cheapest >= 0 ? choice.cheapest : choice.fastest;
  if (first >= 0 && answers[static_cast<std::size_t>(first)].spares) {
    remarks.push_back(spares_text(request, answers[static_cast<std::size_t>(first)]));
  }
  const auto named = [&](std::size_t at) {
    const OfferAnswer& answer = answers[at];
    return has_prices(answers)
               ? fmt::format("{} (${})", answer.offer.name, dollars_text(answer.dollars.value))
               : fmt::format("{} ({})", answer.offer.name, days_text(answer.days.value));
  };
  const std::ptrdiff_t quick = fastest_alike(answers, choice);
  std::string others;  // of the first alone: of twenty offers there are two hundred pairs
  for (const auto& [a, b] : alike(answers)) {
    const auto at = static_cast<std::size_t>(first);
    if (first >= 0 && (a == at || b == at)) {
      others += fmt::format("{}{}", others.empty() ? "" : ", ", named(a == at ? b : a));
    }
  }
  if (!others.empty()) {
    remarks.push_back(fmt::format(
        "cannot be told apart from {}, the interval of the difference holds 0: {}; a few steps run "
        "on each narrow it (calibrate --from-run, then --calibration); else take {}, or the first "
        "that "
        "can be had",
        named(static_cast<std::size_t>(first)), others,
        quick < 0 ? "the one with the fewest GPUs" : fastest_text(answers, first, quick)));
  }
  for (const OfferAnswer& answer : answers) {
    if (!answer.sizes.empty()) {
      remarks.push_back(fmt::format("{}: {}", answer.offer.name, fmt::join(answer.sizes, "; ")));
    }
  }
  return remarks;
}

std::string failures_text(const BudgetRequest& request) {
  if (request.mean_between_seconds) {
    return fmt::format("a failure every {} (--mtbf)", span_text(*request.mean_between_seconds));
  }
  return request.failures.per_1000_node_days > 0
             ? fmt::format("{} failures ({:g} per 1000 node-days; --failures, --mtbf)",
                           request.failures.name, request.failures.per_1000_node_days)
             : "no failures (--failures, --mtbf)";
}

std::string assumptions_text(const BudgetRequest& request) {
  const double all_nodes = request.storage.write_gbytes_per_second;
  const std::string storage =
      all_nodes > 0 ? fmt::format("{:g} GB/s of all nodes", all_nodes)
                    : fmt::format("{:g} GB/s a node (--storage)", planner::kNodeGbytes);
  const std::string save =
      request.save_seconds
          ? fmt::format("a save takes {}", span_text(*request.save_seconds))
          : fmt::format("{} saves at {}",
                        request.storage.asynchronous ? "asynchronous" : "synchronous", storage);
  const std::string spares =
      request.repairs.spares < 0
          ? "a failed node is replaced at once, at no cost (--spares N: of N that are paid for)"
          : spare_nodes_text(request.repairs.spares) + ", paid for";
  const char* batch = request.job.global_batch
                          ? ""
                          : "; the batch is assumed, one for all offers: some 4M tokens, and a "
                            "sequence at least for each GPU of the largest (--global-batch)";
  return fmt::format("{}; {} to restart (--restart); {}; {}{}", failures_text(request),
                     span_text(request.restart_seconds), save, spares, batch);
}

}  // namespace trireme::tools
