#include "planner/cost/unit_schedule.h"

#include <algorithm>
#include <utility>

namespace trireme::planner {
namespace {

// Of a pass's units, after how many the others are passed over.
constexpr int kSettled = 4;
// Names of a stage's units: the embedding, the head, and the layers of four chunks.
constexpr int kEmbedding = 0, kHead = 1, kLayers = 2;
constexpr int kIds = kLayers + 4 * kWalkedUnits;

class Lister {
 public:
  explicit Lister(const UnitShape& shape) : shape_(shape) {
    last_.fill(-2);
    pending_.fill(0);
  }

  UnitSchedule list(const UnitPasses& passes) {
    for (std::size_t p = 0; p < passes.count; ++p) {
      list(passes.all[p], passes.all[p].micro_batch == passes.last_micro_batch);
      schedule_.ends.push_back(schedule_.visits.size());
    }
    issue_gathers();
    end_reductions();
    return std::move(schedule_);
  }

 private:
  void list(const UnitPass& pass, bool last_micro_batch) {
    const bool embedding = pass.first && shape_.embedding != 0;
    const bool head = pass.last && shape_.head != 0;
    const bool replicas = last_micro_batch && !pass.forward;
    const int head_id = shape_.tied != 0 ? kEmbedding : kHead;
    const int base = kLayers + pass.chunk * kWalkedUnits;
    if (pass.forward && embedding) {
      add({.unit = UnitKind::kEmbedding, .forward = true}, kEmbedding);
    } else if (!pass.forward && head) {
      add({.unit = UnitKind::kHead, .forward = false, .replicas = replicas}, head_id);
    }
    for (int i = 0; i < (pass.forward ? shape_.units : shape_.back); ++i) {
      add({.forward = pass.forward,
           .replicas = replicas,
           .settled = shape_.passes_over >= (pass.forward ? 1 : 2) && i + 1 == kSettled},
          base + (pass.forward ? i : shape_.units - 1 - i));
    }
    if (pass.forward && head) {
      add({.unit = UnitKind::kHead, .forward = true}, head_id);
    } else if (!pass.forward && embedding && shape_.frozen_embedding == 0) {
      add({.unit = UnitKind::kEmbedding, .forward = false, .replicas = replicas}, kEmbedding);
    }
  }

  // Neighbouring visits share a gather; unless units are resharded, a forward and its backward do.
  void add(UnitVisit visit, int id) {
    const auto here = static_cast<int>(schedule_.visits.size());
    if (shape_.gathers != 0) {
      const auto i = static_cast<std::size_t>(id);
      const bool stays = shape_.ends_stay != 0 && id < kLayers ? last_[i] >= 0
                         : shape_.reshards != 0                ? last_[i] + 1 >= here
                                                               : pending_[i] > 0;
      visit.starts = !stays;
      pending_[i] += visit.forward ? 1 : -1;
      last_[i] = here;
    }
    schedule_.visits.push_back(visit);
  }

  // A visit issues what the visits up to `ahead` starts later need.
  void issue_gathers() {
    std::vector<std::size_t> starts;
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) {
      if (schedule_.visits[v].starts) {
        starts.push_back(v);
        schedule_.gathers.push_back(schedule_.visits[v].unit);
      }
    }
    std::size_t issued_at = 0;
    for (std::size_t s = 0; s < starts.size(); ++s) {
      const std::size_t from = s < shape_.ahead ? 0 : starts[s - shape_.ahead];
      issued_at = std::max(issued_at, std::min(from, starts[s]));
      ++schedule_.visits[issued_at].gathers;
    }
  }

  // A reduction is over four visits after it was issued at the latest.
  void end_reductions() {
    constexpr std::size_t kLatest = 4;
    std::size_t over = 0;
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) {
      over += v >= kLatest && reduces(schedule_.visits[v - kLatest]) ? 1U : 0U;
      schedule_.visits[v].over = static_cast<std::uint8_t>(over);
    }
  }

  [[nodiscard]] bool reduces(const UnitVisit& visit) const {
    return !visit.forward && (shape_.reduces >> static_cast<unsigned>(visit.unit) & 1U) != 0;
  }

  const UnitShape& shape_;
  std::array<int, kIds> last_, pending_;  // by id: its last visit; forwards without their backward
  UnitSchedule schedule_;
};

}  // namespace

UnitSchedule list_visits(const UnitShape& shape, const UnitPasses& passes) {
  return Lister(shape).list(passes);
}

}  // namespace trireme::planner
