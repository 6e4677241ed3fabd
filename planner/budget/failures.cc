#include "planner/budget/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "core/embedded_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "topologies/node_groups.h"

namespace trireme::planner {

namespace embedded {
std::span<const core::EmbeddedFile> failure_rates();
}  // namespace embedded

namespace {

constexpr double kGpusOfNode = 8;
constexpr double kRateMost = 1e6;  // per 1000 node-days

std::vector<FailureRate> read_rates() {
  std::vector<FailureRate> rates;
  for (const core::EmbeddedFile& file : embedded::failure_rates()) {
    const nlohmann::json json = parse_json(file.content, "failure_rates.json");
    JsonReader reader(json, "failure_rates.json");
    reader.ignore("sources");
    for (JsonReader& entry : reader.objects("rates")) {
      rates.push_back({.name = entry.text("name"),
                       .per_1000_node_days = entry.number("per_1000_node_days", 0),
                       .source = entry.text("source")});
      entry.finish();
    }
    reader.finish();
  }
  return rates;
}

}  // namespace

const std::vector<FailureRate>& failure_rates() {
  static const std::vector<FailureRate> rates = read_rates();
  return rates;
}

FailureRate find_failure_rate(const std::string& name_or_number) {
  const std::vector<FailureRate>& rates = failure_rates();
  const auto known = std::find_if(rates.begin(), rates.end(), [&](const FailureRate& rate) {
    return rate.name == name_or_number;
  });
  if (known != rates.end()) {
    return *known;
  }
  double number = 0;
  const char* end = name_or_number.data() + name_or_number.size();
  const auto [stop, failure] = std::from_chars(name_or_number.data(), end, number);
  if (failure != std::errc() || stop != end || !(number >= 0) || number > kRateMost) {
    std::string names;
    for (const FailureRate& rate : rates) {
      names += (names.empty() ? "" : ", ") + rate.name;
    }
    throw Error("--failures",
                fmt::format("'{}' is wrong; failures per 1000 node-days, or one of {}, would be "
                            "right",
                            name_or_number, names));
  }
  return {.name = name_or_number, .per_1000_node_days = number, .source = "given"};
}

double mean_seconds_between_failures(const topologies::Cluster& cluster, const FailureRate& rate,
                                     double losses_per_node_hour) {
  constexpr double kSecondsOf1000Days = 1000.0 * 86400;
  constexpr double kSecondsOfHour = 3600;
  const auto gpus = static_cast<double>(cluster.gpus);
  const double nodes = topologies::has_unlike_nodes(cluster)
                           ? static_cast<double>(cluster.nodes)
                           : gpus / static_cast<double>(cluster.node.gpus);
  const double per_second = rate.per_1000_node_days * gpus / kGpusOfNode / kSecondsOf1000Days +
                            losses_per_node_hour * nodes / kSecondsOfHour;
  return per_second > 0 ? 1 / per_second : 0;
}

}  // namespace trireme::planner
