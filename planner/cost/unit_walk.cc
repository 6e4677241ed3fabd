#include "planner/cost/unit_walk.h"

#include <algorithm>
#include <bit>

#include "core/random.h"

namespace trireme::planner {
namespace {

constexpr int kMostAhead = 6;

constexpr std::size_t kNone = 2;  // before the first two reductions there is none

// Ends that a walk has written. Beside the walker, whose other numbers are then kept in registers;
// not cleared, which would cost more than a walk.
// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init)
struct Ends {
  std::array<double, kNone + kMostVisits> reduced;  // of reductions, behind those two
  std::array<double, kMostVisits> gathered;
};
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

using Units = std::array<const UnitSeconds*, 3>;  // by UnitKind

// kGathers: the stage's units are gathered when they are needed.
template <bool kGathers>
class Walker {
 public:
  Walker(const UnitStage& stage, const UnitSchedule& schedule, const Units& units, Ends& ends)
      : stage_(stage),
        schedule_(schedule),
        units_(units.data()),
        ends_(ends.reduced.data()),
        gathered_(ends.gathered.data()),
        between_(static_cast<double>(std::max(0, stage.units - kWalkedUnits))),
        between_back_(static_cast<double>(std::max(0, stage.units - stage.frozen - kWalkedUnits))),
        stretched_(1 / (1 - stage.slowdown)) {
    ends_[0] = ends_[1] = 0;
  }

  UnitWalk walk() {
    UnitWalk result;
    const UnitVisit* visit = schedule_.visits.data();
    for (std::size_t p = 0; p < schedule_.ends.size(); ++p) {
      const double began = compute_ + passed_;
      pass(visit, schedule_.visits.data() + schedule_.ends[p]);
      visit = schedule_.visits.data() + schedule_.ends[p];
      result.took[p] = compute_ + passed_ - began;
    }
    result.compute_end = compute_ + passed_;
    result.end = passed_ + std::max({compute_, reduce_, replica_, gather_});
    return result;
  }

 private:
  [[nodiscard]] const UnitSeconds& unit_of(UnitKind kind) const {
    return *units_[static_cast<std::size_t>(kind)];
  }

  void pass(const UnitVisit* visit, const UnitVisit* end) {
    for (; visit != end; ++visit) {
      if (!kGathers && visit->forward && latest_ <= compute_) {
        alone(visit, end);
        return;
      }
      const UnitSeconds& unit = unit_of(visit->unit);
      const double began = compute_;
      wait(ends_[visit->over + 1U]);
      if (kGathers) {
        for (unsigned i = 0; i < visit->gathers; ++i) {
          issue_gather();
        }
        if (visit->starts) {
          wait(gathered_[used_++]);
        }
      }
      if (visit->forward) {
        run(unit.forward);
      } else {
        backward(unit, visit->replicas);
      }
      if (visit->settled) {
        pass_over(*visit, unit, compute_ - began);
      }
    }
  }

  // Forwards that nothing is under way beside.
  void alone(const UnitVisit* visit, const UnitVisit* end) {
    for (; visit != end; ++visit) {
      const double seconds = unit_of(visit->unit).forward;
      compute_ += seconds;
      passed_ += visit->settled ? between_ * seconds : 0;
    }
  }

  // Compute of `seconds`, longer beside the collectives that are under way.
  void run(double seconds) {
    const double busy = (kGathers ? std::max(gather_, reduce_) : reduce_) - compute_;
    compute_ += seconds;
    if (busy > 0) {
      compute_ += stage_.slowdown * std::min(busy, seconds * stretched_);
    }
  }

  // When the next of a kind can begin whose last one ends at `own_end`.
  [[nodiscard]] double link_free(double own_end) const {
    return kGathers && stage_.one_link ? std::max(gather_, reduce_) : own_end;
  }

  void wait(double end) { compute_ = std::max(compute_, end); }

  void issue_gather() {
    const UnitSeconds& unit = unit_of(schedule_.gathers[issued_]);
    run(unit.gather_copy);
    gather_ = std::max(link_free(gather_), compute_) + unit.gather;
    gathered_[issued_++] = gather_;
    if (!stage_.overlaps) {
      wait(gather_);
    }
  }

  // The second last reduction is over before more gradients need memory; or the last one before the
  // next one's input does.
  void backward(const UnitSeconds& unit, bool replicas) {
    run(unit.before_gradient);
    wait(ends_[reduced_]);
    run(unit.backward - unit.before_gradient);
    if (stage_.one_input) {
      wait(ends_[reduced_ + 1]);
    }
    run(unit.reduce_copy);
    if (unit.reduce > 0) {
      reduce_ = std::max(link_free(reduce_), compute_) + unit.reduce;
      ends_[kNone + reduced_++] = reduce_;
      latest_ = std::max(latest_, reduce_);
    }
    if (replicas && unit.replicate > 0) {
      replica_ = std::max({replica_, reduce_, compute_}) + unit.replicate;
    }
  }

  // The units between take as long as this one did, but for what it waited once: none of many alike
  // takes longer than the longest of its streams. Queues that are shorter than their units' compute
  // run dry meanwhile; those that are longer grow where nothing waits for them.
  void pass_over(const UnitVisit& visit, const UnitSeconds& unit, double took) {
    const double compute = (visit.forward ? unit.forward : unit.backward + unit.reduce_copy) +
                           (visit.starts ? unit.gather_copy : 0);
    const double gather = visit.starts ? unit.gather : 0;
    const double reduce = visit.forward ? 0 : unit.reduce;
    const double before_reduce = stage_.one_link ? gather : 0;
    const double each =
        std::min(took, std::max({compute * stretched_, gather, before_reduce + reduce}));
    const double between = visit.forward ? between_ : between_back_;
    passed_ += between * each;
    if (visit.forward) {
      return;
    }
    const double dry = between * std::max(0.0, each - before_reduce - unit.reduce);
    reduce_ = std::max(std::min(reduce_, compute_ + unit.reduce), reduce_ - dry);
    if (visit.replicas && unit.replicate > 0) {
      replica_ = std::max(compute_, replica_ + between * (unit.replicate - each));
    }
  }

  const UnitStage& stage_;
  const UnitSchedule& schedule_;
  const UnitSeconds* const* units_;
  double* ends_;
  double* gathered_;
  double between_, between_back_;  // units passed over in each forward, each backward
  double stretched_;               // times as long as compute takes beside a collective
  std::size_t reduced_ = 0, issued_ = 0, used_ = 0;
  double compute_ = 0, gather_ = 0, reduce_ = 0, replica_ = 0;
  double latest_ = 0;  // end of a reduction so far
  double passed_ = 0;  // seconds of the units passed over
};

std::uint8_t flag(bool value) {
  return value ? 1 : 0;
}

constexpr std::size_t kKnownWalks = 512;  // a power of two

}  // namespace

UnitShape unit_shape(const UnitStage& stage) {
  const auto reduces = [](const UnitSeconds& unit, UnitKind kind) {
    return (unit.reduce > 0 ? 1 : 0) << static_cast<int>(kind);
  };
  const int back = std::max(0, stage.units - stage.frozen);
  return {.units = static_cast<std::uint8_t>(std::clamp(stage.units, 1, kWalkedUnits)),
          .back = static_cast<std::uint8_t>(std::min(back, kWalkedUnits)),
          .passes_over = static_cast<std::uint8_t>((stage.units > kWalkedUnits ? 1 : 0) +
                                                   (back > kWalkedUnits ? 1 : 0)),
          .frozen_embedding = flag(stage.frozen_embedding),
          .embedding = flag(stage.has_embedding),
          .head = flag(stage.has_head),
          .tied = flag(stage.tied),
          .ends_stay = flag(stage.ends_stay),
          .gathers = flag(stage.gathers),
          .reshards = flag(stage.reshards),
          .ahead = static_cast<std::uint8_t>(std::clamp(stage.ahead, 0, kMostAhead)),
          .reduces = static_cast<std::uint8_t>(reduces(stage.embedding, UnitKind::kEmbedding) |
                                               reduces(stage.layers, UnitKind::kLayers) |
                                               reduces(stage.head, UnitKind::kHead))};
}

UnitWalk walk_units(const UnitStage& stage, const UnitSchedule& schedule) {
  const Units units = {&stage.embedding, &stage.layers, &stage.head};
  Ends ends;
  return stage.gathers ? Walker<true>(stage, schedule, units, ends).walk()
                       : Walker<false>(stage, schedule, units, ends).walk();
}

const UnitWalk& KnownWalks::walk(const UnitStage& stage, std::uint32_t passes,
                                 const UnitSchedule& schedule) {
  known_.resize(kKnownWalks);
  // What tells most stages apart; the rest is compared.
  const UnitSeconds& layers = stage.layers;
  const auto choices = static_cast<std::uint32_t>(4 * stage.units + (stage.gathers ? 2 : 0) +
                                                  (stage.reshards ? 1 : 0));
  std::uint64_t hash = std::uint64_t{choices} << 32U | passes;
  for (const double seconds : {layers.forward, layers.backward, layers.gather, layers.reduce,
                               layers.reduce_copy, layers.replicate, stage.embedding.backward,
                               stage.embedding.reduce, stage.head.backward, stage.head.reduce}) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(seconds)) * kGoldenGamma;
    hash ^= hash >> 32U;  // high bits of a real number tell more than low ones
  }
  Known& known = known_[hash & (kKnownWalks - 1)];
  if (!known.used || known.passes != passes || !(known.stage == stage)) {
    known.used = true;
    known.passes = passes;
    known.stage = stage;
    known.walk = walk_units(stage, schedule);
  }
  return known.walk;
}

}  // namespace trireme::planner
