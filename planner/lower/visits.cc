#include "planner/lower/visits.h"

#include <algorithm>

namespace trireme::planner::lowering {
namespace {

// Visits of one chunk in model order.
std::vector<Visit> chunk_visits(const Chunk& chunk, const StageParameters& stage) {
  std::vector<Visit> visits;
  if (chunk.embedding) {
    visits.push_back(
        {0, Block::kEmbedding, -1, {stage.embedding_unit, stage.positions_unit, kNoUnit}});
  }
  for (std::int64_t layer = chunk.first; layer < chunk.last; ++layer) {
    visits.push_back({0,
                      Block::kLayer,
                      static_cast<std::int32_t>(layer),
                      {stage.unit_of_layer[static_cast<std::size_t>(layer)],
                       stage.experts_of_layer[static_cast<std::size_t>(layer)],
                       stage.adapters_of_layer[static_cast<std::size_t>(layer)]}});
  }
  if (chunk.head) {
    // A head that shares the table with the embedding needs the table's unit too.
    const std::uint32_t table = stage.head.unit == stage.head_unit ? kNoUnit : stage.head.unit;
    visits.push_back({0, Block::kHead, -1, {table, stage.head_unit, kNoUnit}});
  }
  return visits;
}

bool uses(const Visit& visit, std::uint32_t unit) {
  return std::find(visit.units.begin(), visit.units.end(), unit) != visit.units.end();
}

std::vector<GatherSpan> spans_of(std::uint32_t unit, const std::vector<Visit>& visits,
                                 const std::vector<Action>& actions, LetGo let_go) {
  std::vector<GatherSpan> spans;
  std::int64_t pending = 0;  // forwards whose backward is still to come
  const auto stays = [&](std::uint32_t visit) {
    switch (let_go) {
      case LetGo::kNever:
        return true;
      case LetGo::kAfterVisit:
        return spans.back().last + 1 >= visit;
      case LetGo::kAfterBackward:
        return pending > 0;
    }
    return false;
  };
  for (std::uint32_t i = 0; i < visits.size(); ++i) {
    const ActionKind kind = actions[visits[i].action].kind;
    if (!uses(visits[i], unit) || kind == ActionKind::kWeightGradient) {
      continue;  // weight gradients need no weights
    }
    if (!spans.empty() && stays(i)) {
      spans.back().last = i;
    } else {
      spans.push_back({unit, i, i});
    }
    pending += kind == ActionKind::kForward ? 1 : -1;
  }
  return spans;
}

}  // namespace

std::vector<Visit> list_visits(const std::vector<Action>& actions, const StageParameters& stage) {
  std::vector<Visit> visits;
  for (std::uint32_t i = 0; i < actions.size(); ++i) {
    const Chunk& chunk = stage.chunks[static_cast<std::size_t>(actions[i].chunk)];
    std::vector<Visit> part = chunk_visits(chunk, stage);
    if (actions[i].kind != ActionKind::kForward) {
      std::reverse(part.begin(), part.end());
      // Backward ends at the lowest block that is trained.
      std::erase_if(part, [&](const Visit& visit) {
        return visit.block != Block::kHead && visit.layer < stage.trained.lowest();
      });
    }
    for (Visit& visit : part) {
      visit.action = i;
      visits.push_back(visit);
    }
  }
  return visits;
}

std::vector<GatherSpan> plan_gathers(const std::vector<Visit>& visits,
                                     const std::vector<Action>& actions,
                                     const std::vector<LetGo>& let_go) {
  std::vector<GatherSpan> spans;
  for (std::uint32_t unit = 0; unit < let_go.size(); ++unit) {
    const std::vector<GatherSpan> mine = spans_of(unit, visits, actions, let_go[unit]);
    spans.insert(spans.end(), mine.begin(), mine.end());
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const GatherSpan& a, const GatherSpan& b) { return a.first < b.first; });
  return spans;
}

}  // namespace trireme::planner::lowering
