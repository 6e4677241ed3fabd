#include "planner/search/lean_split.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

class Leaner {
 public:
  Leaner(const Plan& plan, const PartCosts& costs, MemoryModel& memory)
      : plan_(plan),
        memory_(memory),
        ranks_(static_cast<std::size_t>(plan.pipeline)),
        takes_none_(ranks_, false) {
    double all = 0;
    for (const double cost : costs.layers) {
      all += cost;
      alike_ = alike_ && cost == costs.layers.front();
    }
    layer_ = all / static_cast<double>(costs.layers.size());
    ends_ = {costs.embedding, costs.head};
    for (std::int64_t rank = 0; rank < plan_.pipeline; ++rank) {
      for (std::int64_t place = 0; place < plan_.virtual_pipeline; ++place) {
        chunks_.push_back(static_cast<std::size_t>(chunk_of_rank(plan_, rank, place)));
      }
    }
  }

  std::vector<std::int64_t> run() {
    memory_.estimate(plan_, estimate_);
    const std::size_t most_moves = plan_.stage_layers.size() * 4;
    for (std::size_t moves = 0; moves < most_moves && estimate_.fit != Fit::kFits; ++moves) {
      if (!move()) {
        return {};
      }
    }
    const bool fits = estimate_.fit == Fit::kFits;
    return fits && moved_ ? plan_.stage_layers : std::vector<std::int64_t>();
  }

 private:
  [[nodiscard]] double gib_of(std::size_t rank) const {
    return estimate_.stages[rank].items.total();
  }

  [[nodiscard]] std::span<const std::size_t> chunks_of(std::size_t rank) const {
    const auto places = static_cast<std::size_t>(plan_.virtual_pipeline);
    return std::span(chunks_).subspan(rank * places, places);
  }

  // The rank's chunk with the most layers, to give one, or with the fewest, to take one; count of
  // chunks when it has none to give.
  [[nodiscard]] std::size_t chunk_of(std::size_t rank, bool gives) const {
    const std::vector<std::int64_t>& layers = plan_.stage_layers;
    std::size_t best = rank;
    for (const std::size_t c : chunks_of(rank)) {
      best = (gives ? layers[c] >= layers[best] : layers[c] <= layers[best]) ? c : best;
    }
    const bool end = best == 0 || best + 1 == layers.size();
    return gives && layers[best] <= (end ? 0 : 1) ? layers.size() : best;
  }

  [[nodiscard]] double seconds_of(std::size_t rank) const {
    double seconds = 0;
    for (const std::size_t c : chunks_of(rank)) {
      seconds += layer_ * static_cast<double>(plan_.stage_layers[c]) + (c == 0 ? ends_[0] : 0) +
                 (c + 1 == plan_.stage_layers.size() ? ends_[1] : 0);
    }
    return seconds;
  }

  // One layer from the fullest rank to the one that then has the least to do and stays below.
  bool move() {
    std::size_t fullest = 0;
    for (std::size_t rank = 1; rank < ranks_; ++rank) {
      fullest = gib_of(rank) > gib_of(fullest) ? rank : fullest;
    }
    const double most = gib_of(fullest);
    const std::size_t from = chunk_of(fullest, true);
    if (from == plan_.stage_layers.size()) {
      return false;
    }
    forget_full_ranks(fullest);
    others_.clear();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank != fullest && !takes_none_[rank]) {
        others_.emplace_back(seconds_of(rank), rank);
      }
    }
    std::sort(others_.begin(), others_.end());
    --plan_.stage_layers[from];
    for (const auto& [seconds, rank] : others_) {
      const std::size_t to = chunk_of(rank, false);
      ++plan_.stage_layers[to];
      if (memory_.stage_gib(plan_, static_cast<std::int64_t>(rank)) < most) {
        memory_.estimate(plan_, estimate_);
        moved_ = true;
        return true;
      }
      --plan_.stage_layers[to];
      takes_none_[rank] = true;
    }
    return false;
  }

  // A rank that had no room beside the fullest one has none later: that one only gets emptier. But
  // the rank that now gives, and the one that may hold the mirrored chunks of it (DualPipe), do;
  // and where layers differ, which ones a rank has changes with every move.
  void forget_full_ranks(std::size_t giving) {
    if (alike_) {
      takes_none_[giving] = takes_none_[ranks_ - 1 - giving] = false;
    } else {
      takes_none_.assign(ranks_, false);
    }
  }

  Plan plan_;
  MemoryModel& memory_;
  std::size_t ranks_;
  double layer_ = 0;
  std::array<double, 2> ends_ = {};
  std::vector<std::size_t> chunks_;                     // by rank and place
  std::vector<std::pair<double, std::size_t>> others_;  // seconds and rank of those that may take
  MemoryEstimate estimate_;
  bool moved_ = false;
  bool alike_ = true;             // all layers
  std::vector<bool> takes_none_;  // by rank: one more layer made it as full as the fullest
};

}  // namespace

std::vector<std::int64_t> lean_split(const Plan& plan, const PartCosts& costs,
                                     MemoryModel& memory) {
  return Leaner(plan, costs, memory).run();
}

}  // namespace trireme::planner
