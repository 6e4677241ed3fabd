#include "planner/cost/unit_walk.h"

#include <algorithm>

namespace trireme::planner {
namespace {

// Units of a pass that are walked: the first ones differ from each other, later ones repeat.
constexpr int kWalked = 5;
// Of them, after how many the others are passed over.
constexpr int kSettled = 4;
// Names of a stage's units: the embedding, the head, and the layers of four chunks.
constexpr int kEmbedding = 0, kHead = 1, kLayers = 2;
constexpr int kIds = kLayers + 4 * kWalked;
constexpr int kMostVisits = static_cast<int>(kMostPasses) * (kWalked + 2);
constexpr int kMostAhead = 6;

struct Visit {
  const UnitSeconds* unit;
  bool forward;
  bool starts;    // its weights are gathered
  bool replicas;  // of the last micro-batch
  bool settled;   // units like it, and the one before, follow
};

class Walker {
 public:
  explicit Walker(const UnitStage& stage)
      : stage_(stage),
        units_(std::clamp(stage.units, 1, kWalked)),
        between_(static_cast<double>(stage.units - units_)),
        ahead_(std::clamp(stage.ahead, 0, kMostAhead)),
        stretched_(1 / (1 - stage.slowdown)) {
    last_.fill(-2);
    pending_.fill(0);
  }

  UnitWalk walk(const UnitPasses& passes) {
    std::array<int, kMostPasses> ends;  // by pass: the visit after its last
    for (std::size_t p = 0; p < passes.count; ++p) {
      list(passes.all[p], passes.all[p].micro_batch == passes.last_micro_batch);
      ends[p] = visits_count_;
    }
    UnitWalk result;
    int v = 0;
    for (std::size_t p = 0; p < passes.count; ++p) {
      const double began = compute_ + passed_;
      for (; v < ends[p]; ++v) {
        visit(v);
      }
      result.took[p] = compute_ + passed_ - began;
    }
    result.compute_end = compute_ + passed_;
    result.end = passed_ + std::max({compute_, reduce_, replica_, gather_});
    return result;
  }

 private:
  void list(const UnitPass& pass, bool last_micro_batch) {
    const bool embedding = pass.first && stage_.has_embedding;
    const bool head = pass.last && stage_.has_head;
    const bool replicas = last_micro_batch && !pass.forward;
    const int head_id = stage_.tied ? kEmbedding : kHead;
    const int base = kLayers + pass.chunk * kWalked;
    const bool passes_over = between_ > 0;
    if (pass.forward) {
      if (embedding) {
        add(stage_.embedding, kEmbedding, true, false, false);
      }
      for (int unit = 0; unit < units_; ++unit) {
        add(stage_.layers, base + unit, true, false, passes_over && unit + 1 == kSettled);
      }
      if (head) {
        add(stage_.head, head_id, true, false, false);
      }
      return;
    }
    if (head) {
      add(stage_.head, head_id, false, replicas, false);
    }
    for (int unit = units_ - 1; unit >= 0; --unit) {
      add(stage_.layers, base + unit, false, replicas, passes_over && units_ - unit == kSettled);
    }
    if (embedding) {
      add(stage_.embedding, kEmbedding, false, replicas, false);
    }
  }

  // Neighbouring visits share a gather; unless units are resharded, a forward and its backward do.
  void add(const UnitSeconds& unit, int id, bool forward, bool replicas, bool settled) {
    bool starts = false;
    if (stage_.gathers) {
      const auto i = static_cast<std::size_t>(id);
      const bool stays = stage_.ends_stay && id < kLayers ? last_[i] >= 0
                         : stage_.reshards                ? last_[i] + 1 >= visits_count_
                                                          : pending_[i] > 0;
      starts = !stays;
      pending_[i] += forward ? 1 : -1;
      last_[i] = visits_count_;
      if (starts) {
        starts_[static_cast<std::size_t>(starts_count_++)] = visits_count_;
      }
    }
    visits_[static_cast<std::size_t>(visits_count_++)] = {&unit, forward, starts, replicas,
                                                          settled};
  }

  // Compute of `seconds`, longer beside the collectives that are under way.
  void run(double seconds) {
    const double busy = std::max(gather_, reduce_) - compute_;
    compute_ += seconds;
    if (busy > 0) {
      compute_ += stage_.slowdown * std::min(busy, seconds * stretched_);
    }
  }

  void wait(double end) { compute_ = std::max(compute_, end); }

  // Gathers that this visit issues: what the visits up to `ahead` starts later need.
  void issue_gathers(int v) {
    while (next_start_ < starts_count_) {
      const int from =
          next_start_ < ahead_ ? 0 : starts_[static_cast<std::size_t>(next_start_ - ahead_)];
      const int start = starts_[static_cast<std::size_t>(next_start_)];
      if (from > v && start > v) {
        break;
      }
      ++next_start_;
      const UnitSeconds& unit = *visits_[static_cast<std::size_t>(start)].unit;
      run(unit.gather_copy);
      gather_ = std::max(gather_, compute_) + unit.gather;
      gathered_[static_cast<std::size_t>(start) % gathered_.size()] = gather_;
      if (!stage_.overlaps) {
        wait(gather_);
      }
    }
  }

  void visit(int v) {
    const Visit& visit = visits_[static_cast<std::size_t>(v)];
    const UnitSeconds& unit = *visit.unit;
    const double began = compute_;
    // A reduction is over four visits after it was issued at the latest.
    while (waited_ < reduced_ && reduction(waited_).visit + 4 <= v) {
      wait(reduction(waited_++).end);
    }
    if (stage_.gathers) {
      issue_gathers(v);
      if (visit.starts) {
        wait(gathered_[static_cast<std::size_t>(v) % gathered_.size()]);
      }
    }
    if (visit.forward) {
      run(unit.forward);
    } else {
      backward(v, visit);
    }
    if (visit.settled) {
      pass_over(visit, compute_ - began);
    }
  }

  // The second last reduction is over before more gradients need memory.
  void backward(int v, const Visit& visit) {
    const UnitSeconds& unit = *visit.unit;
    run(unit.before_gradient);
    if (reduced_ >= 2) {
      wait(reduction(reduced_ - 2).end);
    }
    run(unit.backward - unit.before_gradient);
    run(unit.reduce_copy);
    if (unit.reduce > 0) {
      reduce_ = std::max(reduce_, compute_) + unit.reduce;
      reduction(reduced_++) = {v, reduce_};
    }
    if (visit.replicas && unit.replicate > 0) {
      replica_ = std::max({replica_, reduce_, compute_}) + unit.replicate;
    }
  }

  // The units between take as long as this one did, but for what it waited once: none of many alike
  // takes longer than the longest of its streams. Queues that are shorter than their units' compute
  // run dry meanwhile; those that are longer grow where nothing waits for them.
  void pass_over(const Visit& visit, double took) {
    const UnitSeconds& unit = *visit.unit;
    const double compute = (visit.forward ? unit.forward : unit.backward + unit.reduce_copy) +
                           (visit.starts ? unit.gather_copy : 0);
    const double each =
        std::min(took, std::max({compute * stretched_, visit.starts ? unit.gather : 0,
                                 visit.forward ? 0 : unit.reduce}));
    passed_ += between_ * each;
    if (visit.forward) {
      return;
    }
    const double dry = between_ * std::max(0.0, each - visit.unit->reduce);
    reduce_ = std::max(std::min(reduce_, compute_ + visit.unit->reduce), reduce_ - dry);
    if (visit.replicas && visit.unit->replicate > 0) {
      replica_ = std::max(compute_, replica_ + between_ * (visit.unit->replicate - each));
    }
  }

  struct Reduction {
    int visit;
    double end;
  };
  static constexpr std::size_t kWindow = 8;  // reductions that may still be waited for
  Reduction& reduction(int i) { return reductions_[static_cast<std::size_t>(i) % kWindow]; }

  const UnitStage& stage_;
  int units_;       // walked
  double between_;  // passed over in each pass
  int ahead_;
  double stretched_;  // times as long as compute takes beside a collective
  std::array<Visit, kMostVisits> visits_;
  std::array<int, kMostVisits> starts_;   // visits that start a gather
  std::array<int, kIds> last_, pending_;  // by id: its last visit; forwards without their backward
  int visits_count_ = 0, starts_count_ = 0, next_start_ = 0;
  std::array<Reduction, kWindow> reductions_;
  int reduced_ = 0, waited_ = 0;
  std::array<double, 32> gathered_;  // by visit, those that are ahead
  double compute_ = 0, gather_ = 0, reduce_ = 0, replica_ = 0;
  double passed_ = 0;  // seconds of the units passed over
};

}  // namespace

UnitWalk walk_units(const UnitStage& stage, const UnitPasses& passes) {
  return Walker(stage).walk(passes);
}

}  // namespace trireme::planner
