#include "tools/compare_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme::tools {
namespace {

void put_worst_first(std::vector<JoinedOp>& ops) {
  std::stable_sort(ops.begin(), ops.end(), [](const JoinedOp& a, const JoinedOp& b) {
    return std::abs(a.transfer.difference()) > std::abs(b.transfer.difference());
  });
}

std::vector<JoinedOp> kinds_of(const std::vector<JoinedOp>& ops) {
  std::map<OpKey, JoinedOp> kinds;
  for (const JoinedOp& op : ops) {
    const OpKey key = without_place(op.key);
    JoinedOp& kind = kinds[key];
    kind.key = key;
    kind.category = op.category;
    kind.count += op.count;
    kind.transfer.predicted += op.transfer.predicted;
    kind.transfer.measured += op.transfer.measured;
    kind.skew.predicted += op.skew.predicted;
    kind.skew.measured += op.skew.measured;
  }
  std::vector<JoinedOp> result;
  result.reserve(kinds.size());
  for (const auto& [key, kind] : kinds) {
    result.push_back(kind);
  }
  return result;
}

void join_ops(Comparison& comparison) {
  const bool detailed = comparison.predicted.by_micro_batch && comparison.measured.by_micro_batch;
  const auto predicted = detailed ? comparison.predicted.ops : merged_ops(comparison.predicted);
  const auto measured = detailed ? comparison.measured.ops : merged_ops(comparison.measured);
  std::map<std::uint32_t, bool> stages;
  for (const auto& [key, stat] : measured) {
    const auto found = predicted.find(key);
    if (found == predicted.end()) {
      ++comparison.only_measured;
      continue;
    }
    stages[key.stage] = true;
    const OpStat& other = found->second;
    comparison.ops.push_back({key,
                              stat.category,
                              {other.transfer * stat.count, stat.transfer * stat.count},
                              {other.skew * stat.count, stat.skew * stat.count},
                              stat.count});
  }
  comparison.only_predicted = predicted.size() - comparison.ops.size();
  for (const JoinedOp& op : comparison.ops) {
    const auto share = static_cast<double>(stages.size());
    Pair& transfer = comparison.transfer_by_category[op.category];
    transfer.predicted += op.transfer.predicted / share;
    transfer.measured += op.transfer.measured / share;
    Pair& skew = comparison.skew_by_category[op.category];
    skew.predicted += op.skew.predicted / share;
    skew.measured += op.skew.measured / share;
  }
  comparison.kinds = kinds_of(comparison.ops);
  put_worst_first(comparison.ops);
  put_worst_first(comparison.kinds);
}

std::optional<double> share_of_step(const ComparedSide& side, const std::optional<double>& part) {
  return part && side.split->step_seconds > 0 ? std::optional(*part / side.split->step_seconds)
                                              : std::nullopt;
}

}  // namespace

std::optional<Pair> pair_of(const std::optional<double>& predicted,
                            const std::optional<double>& measured) {
  return predicted && measured ? std::optional(Pair{*predicted, *measured}) : std::nullopt;
}

void join_sides(Comparison& comparison) {
  comparison.step = pair_of(comparison.predicted.step_seconds, comparison.measured.step_seconds);
  comparison.memory =
      pair_of(comparison.predicted.peak_memory_gib, comparison.measured.peak_memory_gib);
  join_ops(comparison);
}

std::optional<double> unattributed(const ComparedSide& side) {
  return side.split ? std::optional(side.split->seconds.at("unattributed")) : std::nullopt;
}

std::optional<double> unattributed_share(const ComparedSide& side) {
  return share_of_step(side, unattributed(side));
}

std::optional<double> communication_share(const ComparedSide& side) {
  return side.split ? share_of_step(side, side.split->exposed_communication) : std::nullopt;
}

std::vector<std::pair<std::string, Pair>> exposed_parts(const Comparison& c) {
  std::vector<std::pair<std::string, Pair>> parts;
  const auto part = [](const std::optional<TimeSplit>& split, const std::string& name) {
    const auto found = split ? split->seconds.find(name) : decltype(split->seconds.end()){};
    return split && found != split->seconds.end() ? found->second : 0.0;
  };
  for (const std::string& name : time_split_names()) {
    const Pair pair{part(c.predicted.split, name), part(c.measured.split, name)};
    if (pair.predicted > 0 || pair.measured > 0) {
      parts.emplace_back(name, pair);
    }
  }
  return parts;
}

std::string error_text(const Pair& pair) {
  return pair.error() ? fmt::format("{:+.1f} %", 100 * *pair.error()) : "-";
}

Table comparison_totals(const Comparison& comparison) {
  const auto share = [](const std::optional<double>& part) {
    return part ? fmt::format("{:.1f} %", 100 * *part) : std::string("-");
  };
  const ComparedSide& predicted = comparison.predicted;
  const ComparedSide& measured = comparison.measured;
  Table table{.head = {"whole step", "predicted", "measured", "error"}, .rows = {}};
  if (const auto& step = comparison.step) {
    table.rows.push_back({"step time", duration_text(step->predicted),
                          duration_text(step->measured), error_text(*step)});
  }
  if (const auto& memory = comparison.memory) {
    table.rows.push_back({"peak memory", fmt::format("{:.3f} GiB", memory->predicted),
                          fmt::format("{:.3f} GiB", memory->measured), error_text(*memory)});
  }
  table.rows.push_back({"exposed communication", share(communication_share(predicted)),
                        share(communication_share(measured)), ""});
  table.rows.push_back({"unattributed", share(unattributed_share(predicted)),
                        share(unattributed_share(measured)), ""});
  return table;
}

}  // namespace trireme::tools
