#include "planner/plan/balance.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

constexpr double kSame = 1e-9;    // of a layer: loads this near are equal
constexpr double kWorth = 0.999;  // a move must shorten the busiest rank by this much

// One split being improved.
class Balance {
 public:
  Balance(const PartCosts& costs, const Plan& plan)
      : costs_(costs),
        plan_(plan),
        pipeline_(static_cast<std::size_t>(plan.pipeline)),
        counts_(static_cast<std::size_t>(plan.pipeline * plan.virtual_pipeline), 1),
        speeds_(costs.speeds.empty() ? std::vector<double>(pipeline_, 1.0) : costs.speeds),
        before_(costs.layers.size() + 1, 0) {
    const double fastest = *std::max_element(speeds_.begin(), speeds_.end());
    for (double& speed : speeds_) {
      speed /= fastest;
    }
    std::partial_sum(costs.layers.begin(), costs.layers.end(), before_.begin() + 1);
    counts_.front() = counts_.back() = 0;
  }

  std::vector<std::int64_t> run() {
    fill();
    const auto layers = costs_.layers.size();
    const bool alike = std::all_of(costs_.layers.begin(), costs_.layers.end(),
                                   [&](double cost) { return cost == costs_.layers.front(); });
    for (std::size_t moves = 0; !alike && moves < layers && improve(); ++moves) {
    }
    return counts_;
  }

 private:
  [[nodiscard]] std::size_t rank_of(std::size_t chunk) const {
    return static_cast<std::size_t>(rank_of_chunk(plan_, static_cast<std::int64_t>(chunk)));
  }
  [[nodiscard]] std::size_t chunk_at(std::size_t rank, std::int64_t place) const {
    return static_cast<std::size_t>(chunk_of_rank(plan_, static_cast<std::int64_t>(rank), place));
  }
  [[nodiscard]] double ends_of(std::size_t chunk) const {
    return (chunk == 0 ? costs_.embedding : 0) + (chunk + 1 == counts_.size() ? costs_.head : 0);
  }

  // The layers that are left go one by one to the rank that is done first with one more, there to
  // the chunk with the least.
  void fill() {
    const double layer = before_.back() / static_cast<double>(costs_.layers.size());
    std::vector<double> ranks(pipeline_, 0);
    std::vector<double> chunks(counts_.size(), 0);
    std::int64_t left = static_cast<std::int64_t>(costs_.layers.size());
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      chunks[c] = ends_of(c) + layer * static_cast<double>(counts_[c]);
      ranks[rank_of(c)] += chunks[c];
      left -= counts_[c];
    }
    for (; left > 0; --left) {
      std::size_t rank = 0;
      for (std::size_t r = 1; r < pipeline_; ++r) {
        const double done = (ranks[r] + layer) / speeds_[r];
        rank = done <= (ranks[rank] + layer) / speeds_[rank] + kSame * layer ? r : rank;
      }
      std::size_t chunk = rank;
      for (std::int64_t place = 0; place < plan_.virtual_pipeline; ++place) {
        const std::size_t c = chunk_at(rank, place);
        chunk = chunks[c] <= chunks[chunk] + kSame * layer ? c : chunk;
      }
      ++counts_[chunk];
      chunks[chunk] += layer;
      ranks[rank] += layer;
    }
  }

  [[nodiscard]] std::vector<double> loads() const {
    std::vector<double> ranks(pipeline_, 0);
    std::size_t first = 0;
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      const std::size_t last = first + static_cast<std::size_t>(counts_[c]);
      ranks[rank_of(c)] += ends_of(c) + before_[last] - before_[first];
      first = last;
    }
    for (std::size_t r = 0; r < pipeline_; ++r) {
      ranks[r] /= speeds_[r];
    }
    return ranks;
  }

  // The rank's chunk with the most layers to give, or with the fewest to take one more.
  [[nodiscard]] std::size_t chunk_of(std::size_t rank, bool gives) const {
    std::size_t best = rank;
    for (std::int64_t place = 0; place < plan_.virtual_pipeline; ++place) {
      const std::size_t c = chunk_at(rank, place);
      const bool more = counts_[c] >= counts_[best];
      best = (gives ? more : counts_[c] <= counts_[best]) ? c : best;
    }
    return best;
  }

  // Where layers differ: moves one from the busiest rank to the one that shortens it most.
  bool improve() {
    const std::vector<double> now = loads();
    const auto slowest =
        static_cast<std::size_t>(std::max_element(now.begin(), now.end()) - now.begin());
    const std::size_t from = chunk_of(slowest, true);
    if (counts_[from] <= (from == 0 || from + 1 == counts_.size() ? 0 : 1)) {
      return false;
    }
    double least = kWorth * now[slowest];
    std::size_t best = counts_.size();
    --counts_[from];
    for (std::size_t rank = 0; rank < pipeline_; ++rank) {
      if (rank == slowest) {
        continue;
      }
      const std::size_t to = chunk_of(rank, false);
      ++counts_[to];
      const std::vector<double> then = loads();
      --counts_[to];
      if (const double busiest = *std::max_element(then.begin(), then.end()); busiest <= least) {
        least = busiest;
        best = to;
      }
    }
    ++counts_[best < counts_.size() ? best : from];
    return best < counts_.size();
  }

  const PartCosts& costs_;
  const Plan& plan_;
  std::size_t pipeline_;
  std::vector<std::int64_t> counts_;
  std::vector<double> speeds_;  // the fastest is 1
  std::vector<double> before_;  // cost of the layers before each
};

}  // namespace

std::vector<std::int64_t> balanced_split(const PartCosts& costs, const Plan& plan) {
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  TRIREME_CHECK(plan.pipeline >= 2 && chunks <= static_cast<std::int64_t>(costs.layers.size()) + 2);
  return Balance(costs, plan).run();
}

}  // namespace trireme::planner
